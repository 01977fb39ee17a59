"""Whether something happens more often among some than among others."""

from __future__ import annotations

from scipy.stats import hypergeom


def more_often(hits: int, trials: int, other_hits: int, other_trials: int) -> float:
    """The p-value of Fisher's exact test, one-sided: as many hits or more, were the rate the same in both groups.

    Given all hits together, those in the first group are hypergeometric; 1 where there is no hit, or no other group.
    """
    if not hits or not other_trials:
        return 1.0
    return float(hypergeom.sf(hits - 1, trials + other_trials, hits + other_hits, trials))
