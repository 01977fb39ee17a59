"""Randomness that belongs to a point: the same for the same point, another for any other."""

from __future__ import annotations

import numpy as np

from divulge.defences.draws import generator

POINT = np.array([0.5, -1.0, 3.0])


def test_a_point_draws_the_same_every_time_however_it_is_laid_out() -> None:
    known = generator(3, "values", POINT).standard_normal(5)
    for same in (POINT.copy(), POINT.astype(np.float32), np.stack([POINT, POINT], axis=1)[:, 0]):
        np.testing.assert_array_equal(generator(3, "values", same).standard_normal(5), known)


def test_another_seed_another_question_and_the_smallest_move_draw_anew() -> None:
    near = POINT.copy()
    near[1] = np.nextafter(near[1], 0)
    asked = [(3, "values", POINT), (4, "values", POINT), (3, "gradients", POINT), (3, "values", near)]
    drawn = np.array([generator(*each).standard_normal(200) for each in asked])
    assert np.abs(np.corrcoef(drawn)[np.triu_indices(4, 1)]).max() < 0.3
