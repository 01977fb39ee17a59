"""Points that someone could contribute to a training set, and what they would do to the model."""

from divulge.attacks.poisoning.attack import Poisoning
from divulge.attacks.poisoning.defences import PoisoningDefences
from divulge.attacks.poisoning.illustration import PoisonMap

__all__ = ["PoisonMap", "Poisoning", "PoisoningDefences"]
