"""Fisher's exact test, one-sided."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact

from divulge.solvers.statistics.comparison import more_often


@pytest.mark.parametrize(("hits", "trials", "other", "others"), [(5, 20, 1, 30), (10, 1500, 0, 1500), (3, 40, 2, 1000)])
def test_it_is_fishers_exact_test(hits: int, trials: int, other: int, others: int) -> None:
    expected = fisher_exact(np.array([[hits, trials - hits], [other, others - other]]), alternative="greater")[1]
    assert more_often(hits, trials, other, others) == pytest.approx(expected)


def test_without_hits_or_without_others_nothing_is_more_frequent() -> None:
    assert more_often(0, 20, 0, 20) == 1
    assert more_often(20, 20, 0, 0) == 1
