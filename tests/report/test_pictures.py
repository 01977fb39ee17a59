"""Pictures are PNG of their own size, inside the page, and never too many."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from divulge.contract import Access, Array, ImagePairs, Membership, Poison, TrainingData
from divulge.report import loot, pictures


def opened(picture: pictures.Picture) -> Array:
    head, body = picture.uri.split(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


def rows(access: Access) -> dict[str, str]:
    """What the page says of it, each line by its name."""
    said = loot.describe(access).rows
    assert all(len(row) == 2 for row in said)
    return {row[0]: row[1] for row in said}


def gallery(access: Access) -> pictures.Gallery:
    shown = loot.describe(access).gallery
    assert shown is not None
    return shown


def test_those_who_look_most_like_members_are_named() -> None:
    scores = np.array([0.1, 0.9, 0.5])
    told = rows(Membership(scores, scores > 0.7))
    assert (told["candidates"], told["called members"]) == ("3", "1")
    assert told["highest scores"] == "row 1 (0.9), row 2 (0.5), row 0 (0.1)"
    named = rows(Membership(scores, scores > 0.7, np.array(["ann", "bob", "eve"])))
    assert named["highest scores"] == "record bob (0.9), record eve (0.5), record ann (0.1)"


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (5, 7, 1)])
def test_a_picture_comes_back_pixel_for_pixel(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).uniform(size=shape)
    picture = pictures.picture(values, "one")
    assert (picture.width, picture.height, picture.alt) == (7, 5, "one")
    assert np.array_equal(opened(picture), np.round(values.squeeze() * 255))


def test_values_outside_are_clipped() -> None:
    assert opened(pictures.picture(np.array([[-1.0, 0.5, 2.0, np.nan, np.inf]]), "")).tolist() == [[0, 128, 255, 0, 255]]


def test_more_than_100_pairs_are_shown_in_part_and_the_page_says_so() -> None:
    many = np.zeros((150, 2, 2))
    pairs = pictures.pairs(ImagePairs("many", many, many, "true", "found", ("first",) * 150))
    assert len(pairs.groups) == 100
    assert pairs.groups[0][1] == "first"
    assert pairs.note == "Left: true. Right: found. The first 100 of 150 pairs."


def test_large_pictures_are_shown_in_smaller_number() -> None:
    large = np.random.default_rng(0).uniform(size=(20, 128, 128, 3))
    pairs = pictures.pairs(ImagePairs("large", large, large, "true", "found"))
    assert 1 <= len(pairs.groups) < 20
    assert "of 20 pairs" in pairs.note


def test_points_beyond_0_and_1_are_stretched_and_the_page_says_so() -> None:
    poison = Poison(np.linspace(-1, 2, 60 * 12).reshape(60, 12), np.arange(60) % 3, shape=(2, 2, 3))
    shown = gallery(poison)
    assert len(shown.groups) == 45
    assert shown.note == ("The first 45 of 60 pictures. Each picture is stretched to its own darkest and lightest value.")
    pixels = opened(shown.groups[0][0][0])
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert ("labels", "0: 20, 1: 20, 2: 20") in loot.describe(poison).rows


def test_points_that_are_no_pictures_are_told_by_their_shape() -> None:
    shown = loot.describe(TrainingData(np.zeros((3, 8)), shape=(2, 2, 2)))
    assert shown.gallery is None
    assert ("shape of one point", "2 × 2 × 2") in shown.rows


def test_a_kind_nobody_knows_is_told_by_its_fields() -> None:
    from dataclasses import dataclass

    try:

        @dataclass(frozen=True, eq=False)
        class Secret(Access):
            table: Array
            depth: int

        shown = loot.describe(Secret(np.zeros((1000, 1000)), 3))
        assert shown.rows == (("table", "array of 1,000 × 1,000"), ("depth", "3"))
    finally:
        Access.kinds.pop("secret", None)
