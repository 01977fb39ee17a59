"""Which candidates are claimed as training points, how surely, and what is handed over beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divulge.contract import Array, Evidence, Preview
from divulge.solvers.images.span_search import SpanSearch

LIKELY = 0.5
"Confidence of a candidate that is claimed: more likely right than wrong."
MOSTLY = 0.8
"""Mean confidence of all that are claimed: of five images shown one may be no training image.

With 0.9 a thirtieth of the images is lost and hardly fewer claims are wrong: 4.2 % in the place of 4.7
(bench/fit_confidence.py, each kind left out in turn).
"""
SHOWN = 45
"Pictures in a preview: as many as a report shows of what was won."
CERTAIN, SEVERAL = 0.9, 3
"Confidence, and how many candidates have to have it, for a leak: no network without images had three (bench/claims.py)."


@dataclass(frozen=True, eq=False)
class Claims(Evidence):
    """Of every point in the loot, how likely it is right; and candidates that nobody claims."""

    right_at: float
    "NCC with a training point above which a claim is right."
    claimed: int
    expected: float
    "How many of the claimed points are right, by their confidence."
    handed_over: int
    "Candidates that are merely handed over."
    confidence: Array
    "(claimed,), in the order of the loot, the surest first."
    certified: Array
    "(claimed,): whether clipped pixels leave no other picture of the span."
    candidates: Array
    "(handed over, d): for whoever knows the truth to look through."

    @classmethod
    def of(cls, right_at: float, confidence: Array, certified: Array, candidates: Array) -> Claims:
        expected = float(confidence.sum())
        return cls(right_at, len(confidence), expected, len(candidates), confidence, certified, candidates)

    @property
    def words(self) -> str:
        return (
            f"By their confidence {self.expected:.1f} of the {self.claimed} claimed are right at NCC > {self.right_at:g} "
            f"({self.expected / max(self.claimed, 1):.0%})."
        )


def chosen(confidence: Array) -> Array:
    """Places of the candidates to claim, the surest first: as many as are likely each and mostly right together.

    None where too few are certain.
    """
    order = np.argsort(-confidence, kind="stable")
    sure = confidence[order]
    mean = np.cumsum(sure) / np.arange(1, len(sure) + 1)
    claimed = order[(sure >= LIKELY) & (mean >= MOSTLY)]
    return claimed if np.sum(sure >= CERTAIN) >= SEVERAL else claimed[:0]


def so_far(search: SpanSearch, what: str) -> Preview:
    """What the search of a span has separated by now. How sure each is, only its end tells."""
    note = f"Separated {what}; those with the sparsest edges first. Mixtures of several images are among them."
    return Preview("Pictures in the span of the first layer", search.so_far()[:SHOWN], search.shape, note)
