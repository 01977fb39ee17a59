"""Which candidates are claimed, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.attacks.reconstruction.claims import Claims, chosen


@pytest.mark.parametrize(
    ("confidence", "claimed"),
    [
        ([0.95, 0.91, 0.91], 3),
        ([0.95, 0.91, 0.89], 0),  # three have to be certain
        ([0.99, 0.99, 0.99, 0.55, 0.51], 5),  # mean 0.806
        ([0.91, 0.91, 0.91, 0.7, 0.55], 4),  # mean 0.796 with the last
        ([0.99] * 10 + [0.51], 11),
        ([0.99] * 10 + [0.49], 10),  # less likely right than wrong
        ([], 0),
    ],
)
def test_as_many_are_claimed_as_are_likely_each_and_mostly_right_together(confidence: list[float], claimed: int) -> None:
    places = chosen(np.array(confidence))
    assert len(places) == claimed
    assert sorted(places) == list(range(claimed))


def test_the_surest_come_first() -> None:
    assert chosen(np.array([0.91, 0.2, 0.99, 0.95])).tolist() == [2, 3, 0]


def test_claims_say_how_many_of_them_are_right() -> None:
    some = Claims.of(0.9, np.array([0.99, 0.95, 0.86]), np.zeros(3, bool), np.zeros((0, 4)))
    assert (some.claimed, some.handed_over) == (3, 0)
    assert some.expected == pytest.approx(2.8)
    assert some.words == "By their confidence 2.8 of the 3 claimed are right at NCC > 0.9 (93%)."
