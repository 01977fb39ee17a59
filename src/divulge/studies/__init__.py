"""What re-tests a remedy, maps a risk or draws a paper's figure. Studies win nothing and are no edges of the graph."""

from typing import TYPE_CHECKING

from divulge.lazy import importer

_HOMES = {
    "MarginSimulation": "margin_simulation",
    "PoisoningDefences": "poisoning_defences.study",
    "PoisoningMap": "poisoning_map",
    "RoundedRelease": "rounded_release",
    "TrainStealRetrain": "train_steal_retrain",
    "TrainingRisk": "training_risk",
}
__all__ = sorted(_HOMES)
__getattr__ = importer(__name__, _HOMES)

if TYPE_CHECKING:
    from divulge.studies.margin_simulation import MarginSimulation as MarginSimulation
    from divulge.studies.poisoning_defences.study import PoisoningDefences as PoisoningDefences
    from divulge.studies.poisoning_map import PoisoningMap as PoisoningMap
    from divulge.studies.rounded_release import RoundedRelease as RoundedRelease
    from divulge.studies.train_steal_retrain import TrainStealRetrain as TrainStealRetrain
    from divulge.studies.training_risk import TrainingRisk as TrainingRisk
