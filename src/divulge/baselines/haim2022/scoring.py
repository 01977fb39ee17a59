"""What both baselines share: when what they made counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from divulge.attacks.reconstruction import scoring
from divulge.contract import Finding, TrainingData, Truth, Verdict, Weights

POWER = (
    "A baseline makes no claim of its own: whether what it made resembles the training data shows only where the auditor "
    "knows that."
)


def scored(finding: Finding[TrainingData], held: Weights, truth: Truth, what: str, **options: Any) -> Finding[TrainingData]:
    """Measured, and a leak where more training images are found than a useless attack finds, beyond doubt."""
    finding, compared = scoring.measured(finding, held, truth, **options)
    if compared is None or finding.verdict is not Verdict.NONE_FOUND:
        return finding
    if compared.preferred is not None:
        said = f"Training images are among the {what}: {compared.preferred}."
        return replace(finding, verdict=Verdict.LEAK, summary=said, power="")
    return scoring.doubted(finding, compared)
