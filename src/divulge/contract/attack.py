"""The shape of every attack: a frozen set of options and a function from what is held to a finding."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, fields, replace
from functools import wraps
from typing import Any, ClassVar, Generic, TypeVar, cast, dataclass_transform, get_args, get_origin

import numpy as np
from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from divulge.contract.access import Access, Gradients, Predictions
from divulge.contract.checks import Array
from divulge.contract.context import Budget, Context
from divulge.contract.finding import Cost, Finding, Provenance, TaxonomyId, Verdict, Won
from divulge.errors import (
    AttackFailed,
    BadInput,
    BudgetSpent,
    NotApplicable,
    TargetFailed,
    TruthSealed,
    refuse_unknown,
    sentence,
)

Needs = TypeVar("Needs", contravariant=True)
A = TypeVar("A", bound=Access)
C = TypeVar("C", bound=type)


class Truth:
    """What the auditor knows and the attacker does not. It cannot be read while an attack runs."""

    def __init__(self, known: Mapping[str, Access] | None = None) -> None:
        self.__known = dict(known or {})
        self.__sealed = 0
        refuse_unknown(self.__known, Access.kinds, "truth")
        for kind, value in self.__known.items():
            if not isinstance(value, Access.kinds[kind]):
                raise BadInput(f"truth: expected {Access.kinds[kind].__name__} under {kind!r}, got {type(value).__name__}")

    def get(self, kind: type[A]) -> A | None:
        """The truth of one kind, or None where the auditor does not know it."""
        if self.__sealed:
            raise TruthSealed(f"an attack reached for the true {kind.kind}; only scoring may read the truth")
        return cast(A | None, self.__known.get(kind.kind))

    def all(self) -> dict[str, Access]:
        """Everything the auditor knows, by kind."""
        if self.__sealed:
            raise TruthSealed("an attack reached for the truth; only scoring may read it")
        return dict(self.__known)

    @contextmanager
    def sealed(self) -> Iterator[None]:
        self.__sealed += 1
        try:
            yield
        finally:
            self.__sealed -= 1


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
def option_class(cls: C) -> C:
    """Make the fields of a class its options: frozen, keyword-only, checked, unknown ones refused."""
    made: Any = checked_dataclass(
        frozen=True, kw_only=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True)
    )(cls)
    init = made.__init__

    @wraps(init)
    def checked_init(self: Any, *args: Any, **options: Any) -> None:
        refuse_unknown(options, made.__dataclass_fields__, f"options of {cls.__name__}")
        try:
            init(self, *args, **options)
        except ValidationError as error:
            raise BadInput(f"{cls.__name__}: {invalid_option(error)}") from None

    made.__init__ = checked_init
    return cast(C, made)


def invalid_option(error: ValidationError) -> str:
    """What is wrong with an option, in one sentence."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return f"option {where!r}: {problem}, got {first['input']!r}"


class Attack(Generic[Needs, Won]):
    """A function from what is held to what is won; `Attack[Needs, Yields]` is an edge of the attack graph.

    Write `run`, and `score` where the truth can measure the loot. Everything else is here.
    """

    name: ClassVar[str]
    "What the command line, the audit file and the registry call it."
    title: ClassVar[str]
    "What a report calls it; the class name in words unless it says otherwise."
    paper: ClassVar[str] = ""
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = ()
    remedy: ClassVar[tuple[str, ...]] = ()
    "What the owner can do about a leak."
    on_request: ClassVar[bool] = False
    "True for what re-tests a remedy or sells one: an audit runs it only where it is named."

    scored_by: ClassVar[type[Access]]
    "What its score is measured against; what it yields unless it says otherwise."

    needs: ClassVar[tuple[type[Access], ...]]
    yields: ClassVar[type[Access]]

    def __init_subclass__(cls) -> None:
        bases = cls.__dict__.get("__orig_bases__", ())
        header = next((base for base in bases if get_origin(base) is Attack), None)
        if header is None:
            raise TypeError(f"{cls.__name__} must derive from Attack[Needs, Yields] itself; attacks are never subclassed")
        needs, cls.yields = get_args(header)
        cls.needs = get_args(needs) if get_origin(needs) is tuple else (needs,)
        cls.scored_by = cls.__dict__.get("scored_by", cls.yields)
        cls.name = cls.__dict__.get("name", cls.__name__)
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", cls.__name__)
        cls.title = cls.__dict__.get("title", words[:1] + words[1:].lower())

    def run(self, held: Needs, context: Context) -> Finding[Won]:
        """Attack. Raise NotApplicable or AttackFailed with the reason, or return a finding."""
        raise NotImplementedError

    def score(self, finding: Finding[Won], held: Needs, truth: Truth) -> Finding[Won]:
        """Measure the loot against the truth: the same finding with scores and figures, or a corrected verdict."""
        return finding

    def __call__(
        self, *held: Access, truth: Truth | Mapping[str, Access] | None = None, context: Context | None = None
    ) -> Finding[Won]:
        """Attack what is held; score against the truth where it is given."""
        truth = truth if isinstance(truth, Truth) else Truth(truth)
        with truth.sealed():
            finding = self.attempt(held, context or Context())
        return self.judge(finding, held, truth)

    def attempt(self, held: tuple[Access, ...], context: Context) -> Finding[Won]:
        """Run blind, and fill in what every finding carries."""
        self._accept(held)
        before, start = context.budget.spent, time.perf_counter()
        metered = tuple(_metered(access, context.budget) for access in held)
        partial = False
        finding: Finding[Won]
        try:
            context.budget.check()
            finding = self.run(cast(Needs, metered[0] if len(metered) == 1 else metered), context)
            _is_finding(finding, self, "run")
        except NotApplicable as reason:
            finding = Finding.not_applicable(sentence(reason))
        except AttackFailed as reason:
            finding = Finding.failed(sentence(reason))
        except (BudgetSpent, TargetFailed) as reason:
            finding, partial = Finding.failed(sentence(reason)), True
        return replace(
            finding,
            partial=finding.partial or partial,
            remedy=finding.remedy or self.remedy,
            taxonomy=finding.taxonomy or self.taxonomy,
            cost=Cost(context.budget.spent - before, time.perf_counter() - start),
            provenance=Provenance(
                attack=self.name,
                title=self.title,
                paper=self.paper,
                options=self.options(),
                claimed=finding.verdict is Verdict.LEAK,
                seed=context.seed,
            ),
        )

    def judge(self, finding: Finding[Won], held: tuple[Access, ...], truth: Truth) -> Finding[Won]:
        """Score against the truth. The loot stays what the attack won without it."""
        if not truth.all():
            return finding
        # A copy: what scoring does to the loot, by accident or not, stays there.
        scored = self.score(deepcopy(finding), cast(Needs, held[0] if len(held) == 1 else held), truth)
        _is_finding(scored, self, "score")
        return replace(scored, loot=finding.loot, cost=finding.cost, provenance=finding.provenance)

    @classmethod
    def option_names(cls) -> list[str]:
        return [field.name for field in fields(cast(Any, cls))]

    def options(self) -> dict[str, Any]:
        return asdict(cast(Any, self))

    def _accept(self, held: tuple[Access, ...]) -> None:
        fits = len(held) == len(self.needs) and all(map(isinstance, held, self.needs))
        if not fits:
            wanted = ", ".join(kind.__name__ for kind in self.needs)
            got = ", ".join(type(access).__name__ for access in held) or "nothing"
            raise BadInput(f"{type(self).__name__} needs ({wanted}), got ({got}); pass what it needs in that order")


def _is_finding(value: object, attack: object, method: str) -> None:
    if not isinstance(value, Finding):
        raise TypeError(f"{type(attack).__name__}.{method} returned {type(value).__name__}; return a Finding")


def _metered(access: Access, budget: Budget) -> Access:
    """Count every point asked of a target, and check every answer, before the attack sees it."""
    if isinstance(access, Gradients):
        meter = _Meter(access, budget)
        return replace(access, value=meter.of("value", access.value), gradient=meter.of("gradient", access.gradient))
    if isinstance(access, Predictions):
        return replace(access, value=_Meter(access, budget).of("value", access.value))
    return access


class _Meter:
    """Counts points. One asked for its value and then for its gradient, or the other way round, is one query."""

    def __init__(self, access: Predictions, budget: Budget) -> None:
        self.access, self.budget = access, budget
        self.paid: tuple[str, Array] | None = None
        "What was asked last, and where."
        self.shapes: dict[str, tuple[int, ...]] = {}

    def of(self, what: str, ask: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def metered(X: Array) -> Array:
            X = np.atleast_2d(X)
            if X.shape[1] != self.access.dimension:
                raise BadInput(
                    f"expected query points of width {self.access.dimension}, got {X.shape[1]}; check the target's dimension"
                )
            if self.paid is not None and self.paid[0] != what and np.array_equal(self.paid[1], X):
                self.budget.check()
                self.paid = None
            else:
                self.budget.spend(len(X))
                self.paid = what, X.copy()
            answer = np.asarray(ask(X))
            if answer.shape[:1] != (len(X),):
                raise NotApplicable(
                    f"the target answered shape {answer.shape} to {len(X)} points; one row for each was expected"
                )
            before = self.shapes.setdefault(what, answer.shape[1:])
            if answer.shape[1:] != before:
                raise NotApplicable(
                    f"the target answered rows of shape {answer.shape[1:]}, and of shape {before} before; "
                    "one shape was expected"
                )
            if not np.isfinite(answer).all():
                raise NotApplicable("the target answered NaN or infinite values; nothing can be concluded from those")
            return answer

        return metered
