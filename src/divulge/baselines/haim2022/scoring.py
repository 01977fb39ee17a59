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
    score = finding.scores.get(scoring.HEADLINE)
    if compared is None or score is None or finding.verdict is not Verdict.NONE_FOUND:
        return finding
    said = f"{score.value:.0f} training images are among the {what} at NCC > {scoring.GOOD:g}; null {score.null:.0f}."
    if compared.preferred is not None:
        return replace(finding, verdict=Verdict.LEAK, summary=f"{said} In all, {compared.preferred}.", power="")
    return replace(finding, summary=f"{finding.summary} Not beyond doubt, {said}") if score.value > score.null else finding
