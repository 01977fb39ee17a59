"""Membership scores that another tool made, measured and reported like those of any attack here."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from divulge.attacks.membership import scoring
from divulge.contract import (
    Attack,
    Context,
    Finding,
    Membership,
    Scores,
    Truth,
    Verdict,
    option_class,
    taxonomies,
)

REMEDY = (
    "Train with differential privacy, or for fewer epochs on more points; then score again.",
    "Answer with fewer digits, or with the class alone, where the scores come from answers.",
)
POWER = (
    "Scores alone claim nothing: whether members have the higher ones shows only where the auditor knows who is a member."
)


@option_class
class ImportedMembership(Attack[Scores, Membership]):
    """Take another tool's scores for how much each record looks like a member."""

    name: ClassVar[str] = "imported-membership"
    taxonomy = taxonomies.MEMBERSHIP
    remedy: ClassVar[tuple[str, ...]] = REMEDY

    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    "Records that score at least so much (at most, where lower means member) are called members; nobody unless given."
    higher: bool = True
    "Whether a higher score means member; false where a lower one does, as with losses."

    def run(self, held: Scores, context: Context) -> Finding[Membership]:
        scores = held.scores if self.higher else -held.scores
        called = np.zeros(len(scores), dtype=bool)
        if self.threshold is not None:
            called = scores >= (self.threshold if self.higher else -self.threshold)
        by = f" from {held.source}" if held.source else ""
        decided = f"; {int(called.sum()):,} of them are called members" if self.threshold is not None else ""
        return Finding(
            Verdict.NONE_FOUND,
            f"{len(scores):,} records with membership scores{by}{decided}.",
            Membership(scores, called, held.records),
            power=POWER,
        )

    def score(self, finding: Finding[Membership], held: Scores, truth: Truth) -> Finding[Membership]:
        """Measured, and a leak where members score above non-members beyond doubt."""
        finding, compared = scoring.measured(finding, truth, None)
        if compared is None:
            return finding
        if compared.shows:
            return replace(finding, verdict=Verdict.LEAK, summary=f"Members stand out: {compared.words}.", power="")
        ends = finding.scores[scoring.AUC].interval
        if ends is not None and ends[1] < 0.5:
            lower, other = ("lower", "false") if self.higher else ("higher", "true")
            note = f"Members score below non-members: if a {lower} score means member, set higher = {other}."
            finding = replace(finding, notes=(*finding.notes, note))
        power = f"It would have shown a difference beyond these intervals: {compared.words}."
        return scoring.doubted(replace(finding, power=power), compared)
