"""Hyperparameters of the objective, from what the training left behind (Wang and Gong 2018, arXiv:1802.05351)."""

from divulge.attacks.hyperparameters.identification import AlgorithmIdentification
from divulge.attacks.hyperparameters.retraining import TrainStealRetrain, train_steal_retrain
from divulge.attacks.hyperparameters.rounding import RoundedRelease
from divulge.attacks.hyperparameters.stealing import HyperparameterStealing

__all__ = ["AlgorithmIdentification", "HyperparameterStealing", "RoundedRelease", "TrainStealRetrain", "train_steal_retrain"]
