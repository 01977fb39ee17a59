"""divulge: what does a machine-learning model give away?"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "audit": "divulge.auditing",
    "risk": "divulge.training_risk.placing",
    **dict.fromkeys(
        ("Candidates", "Context", "Copy", "Explanation", "Finding", "Fitted", "Gradients", "Hyperparameters", "Membership",
         "Parameters", "Pipeline", "Predictions", "Scores", "TrainingData", "Truth", "Verdict", "Weights"),
        "divulge.contract",
    ),
}  # fmt: skip
__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from divulge.auditing import audit as audit
    from divulge.contract import (
        Candidates as Candidates,
        Context as Context,
        Copy as Copy,
        Explanation as Explanation,
        Finding as Finding,
        Fitted as Fitted,
        Gradients as Gradients,
        Hyperparameters as Hyperparameters,
        Membership as Membership,
        Parameters as Parameters,
        Pipeline as Pipeline,
        Predictions as Predictions,
        Scores as Scores,
        TrainingData as TrainingData,
        Truth as Truth,
        Verdict as Verdict,
        Weights as Weights,
    )
    from divulge.training_risk.placing import risk as risk


def __getattr__(name: str) -> Any:
    """Import on first use: the command line must answer `--help` before numpy could have loaded."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'divulge' has no attribute {name!r}")
