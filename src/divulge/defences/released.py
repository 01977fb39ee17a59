"""What an owner can do to what is read rather than asked: the numbers of a model, changed before they are released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from divulge.contract import Access, Array, Fitted, Parameters, Weights

A = TypeVar("A", bound=Access)
Change = Callable[[Array], Array]


def released(access: A, change: Change) -> A:
    """The same model with every array that it learned changed: layers, coefficients, intercepts, dual coefficients.

    What else is known of it stays: its kernel, its settings, the support of an SVM, what is done to the data first.
    """
    if isinstance(access, Weights):
        return replace(access, layers=_layers(access.layers, change))
    if isinstance(access, Fitted):
        return replace(access, layers=_layers(access.layers, change), **_learned(access, change))
    if isinstance(access, Parameters):
        return replace(access, **_learned(access, change))
    return access


def _learned(access: Fitted | Parameters, change: Change) -> dict[str, Any]:
    found = {name: getattr(access, name) for name in ("coef", "intercept", "dual_coef")}
    return {name: change(value) for name, value in found.items() if value is not None}


def _layers(layers: tuple[tuple[Array, Array], ...], change: Change) -> tuple[tuple[Array, Array], ...]:
    return tuple((change(W), change(b)) for W, b in layers)
