"""The words every room shares: what is held, what an attack is, what it found."""

from divulge.arrays import Array
from divulge.contract.access import (
    ASSETS,
    Access,
    Candidates,
    Copy,
    Directions,
    Fitted,
    Gradients,
    Hyperparameters,
    Kernel,
    Membership,
    Parameters,
    Predictions,
    Scores,
    TrainingData,
    Weights,
)
from divulge.contract.attack import Attack, Baseline, Procedure, Study
from divulge.contract.coherence import above, contradictions, surpasses
from divulge.contract.context import Budget, Context
from divulge.contract.contributions import OwnLearner, Pipeline, Poison
from divulge.contract.evidence import Evidence
from divulge.contract.figures import Curve, Figure, HeatMap, Histogram, ImagePairs, Preview, Scatter
from divulge.contract.finding import (
    Cost,
    Finding,
    Holding,
    Provenance,
    Record,
    Remedy,
    Score,
    TaxonomyId,
    Trial,
    Verdict,
)
from divulge.contract.options import option_class
from divulge.contract.tables import Preparation, Table
from divulge.contract.truth import Truth
from divulge.explanations import Explanation

__all__ = [
    "ASSETS",
    "Access",
    "Array",
    "Attack",
    "Baseline",
    "Budget",
    "Candidates",
    "Context",
    "Copy",
    "Cost",
    "Curve",
    "Directions",
    "Evidence",
    "Explanation",
    "Figure",
    "Finding",
    "Fitted",
    "Gradients",
    "HeatMap",
    "Histogram",
    "Holding",
    "Hyperparameters",
    "ImagePairs",
    "Kernel",
    "Membership",
    "OwnLearner",
    "Parameters",
    "Pipeline",
    "Poison",
    "Predictions",
    "Preparation",
    "Preview",
    "Procedure",
    "Provenance",
    "Record",
    "Remedy",
    "Scatter",
    "Score",
    "Scores",
    "Study",
    "Table",
    "TaxonomyId",
    "TrainingData",
    "Trial",
    "Truth",
    "Verdict",
    "Weights",
    "above",
    "contradictions",
    "option_class",
    "surpasses",
]
