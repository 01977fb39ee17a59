"""A kind of explanation is told in a sentence, comes back from a file, and is refused where there is no such kind."""

from typing import Any, cast

import numpy as np
import pytest

from divulge.contract import Array, Explanation, Gradients
from divulge.defences import defended
from divulge.errors import BadInput
from divulge.storage import fingerprint, pack, unpack


def double(X: Array) -> Array:
    return np.asarray(2 * X)


@pytest.mark.parametrize(
    ("explanation", "sentence"),
    [
        (Explanation("gradient", "each output"), "gradient of each output"),
        (Explanation("gradient times input", "top output"), "gradient × input of the top output"),
        (Explanation("smoothed gradient", "output 3", absolute=True), "absolute smoothed gradient of output 3"),
        (
            Explanation("absolute gradient", absolute=True, normalised="maximum"),
            "absolute gradient of the only output, each divided by its largest entry",
        ),
        (
            Explanation("integrated gradients", "sum of outputs", baseline=np.full(3, 0.5)),
            "integrated gradients of the sum of outputs from the baseline 0.5",
        ),
        (Explanation("SHAP-like", baseline=0.25), "SHAP-like attributions of the only output with base value 0.25"),
        (Explanation("unknown"), "explanations of an unknown kind"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_it_is_said_in_a_few_words(explanation: Explanation, sentence: str) -> None:
    assert str(explanation) == sentence


def test_only_plain_gradients_are_raw() -> None:
    assert Explanation("gradient", "top output").raw
    assert not Explanation("gradient", normalised="length").raw
    assert not Explanation("gradient times input").raw


def test_it_comes_back_from_a_file_with_its_baseline() -> None:
    tree, arrays = pack(Explanation("integrated gradients", "output 2", baseline=np.arange(3.0), points=12))
    found = unpack(tree, arrays)
    assert (found.kind, found.output, found.points) == ("integrated gradients", 2, 12)
    np.testing.assert_array_equal(found.baseline, np.arange(3.0))


def test_gradients_of_another_kind_are_another_thing_held() -> None:
    held = [Gradients(double, 2, "mine", gradient=double, explanation=told) for told in (None, Explanation("gradient"))]
    assert fingerprint(held[0]) != fingerprint(held[1])


def test_a_kind_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="expected an Explanation of a kind among gradient, gradient times input"):
        Gradients(double, 2, gradient=double, explanation=cast(Any, "saliency"))


def test_a_defence_that_changes_gradients_forgets_what_they_were() -> None:
    held = Gradients(double, 2, gradient=double, explanation=Explanation("gradient"))
    assert defended(held, "absolute").explanation is None
    assert defended(held, "rounding", digits=3, of="values").explanation is held.explanation
