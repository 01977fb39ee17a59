"""The shape of every attack, baseline and study: frozen options, and a function from what is held to a finding."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, get_args, get_origin

from divulge.contract.access import Access, Gradients, TrainingData, Weights
from divulge.contract.context import Context
from divulge.contract.display import bar
from divulge.contract.finding import Cost, Finding, Provenance, Remedy, Role, TaxonomyId, Verdict, Won, remedies
from divulge.contract.metering import metered
from divulge.contract.service import Account, charged
from divulge.contract.tables import is_raw, is_sparse
from divulge.contract.truth import Truth
from divulge.errors import AttackFailed, BadInput, BudgetSpent, NotApplicable, TargetFailed, sentence

Needs = TypeVar("Needs", contravariant=True)


class Procedure(Generic[Needs, Won]):
    """What attacks, baselines and studies share: options, needs, a blind `run`, a `score` that alone sees the truth.

    Write `run`, and `score` where the truth can measure the loot. Everything else is here.
    """

    name: ClassVar[str]
    "What the command line, the audit file and the registry call it."
    title: ClassVar[str]
    "What a report calls it; the class name in words unless it says otherwise."
    paper: ClassVar[str] = ""
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = ()
    remedy: ClassVar[tuple[str | Remedy, ...]] = ()
    "What the owner can do about a leak, what helps most first."
    asset: ClassVar[str] = ""
    "What of the owner's it is after, one of `ASSETS`; that of what it yields unless it says otherwise."
    raw: ClassVar[bool] = False
    "Whether it takes training data that is sparse, or a table with text and gaps."
    asks: ClassVar[int] = 0
    "How many queries it usually asks of a model, roughly: what asks less is tried first."
    scored_by: ClassVar[type[Access] | None]
    "What its score is measured against; what it yields unless it says otherwise."

    role: ClassVar[Role]
    needs: ClassVar[tuple[type[Access], ...]]
    yields: ClassVar[type[Access] | None]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__name__ in ("Attack", "Baseline", "Study") and cls.__module__ == __name__:
            return
        bases = cls.__dict__.get("__orig_bases__", ())
        header = next((base for base in bases if get_origin(base) in (Attack, Baseline, Study)), None)
        if header is None:
            raise TypeError(
                f"{cls.__name__} must derive from Attack[Needs, Yields], Baseline[Needs, Yields] or Study[Needs] itself; "
                "attacks are never subclassed"
            )
        needs, *won = get_args(header)
        cls.needs = get_args(needs) if get_origin(needs) is tuple else (needs,)
        cls.yields = won[0] if won else None
        cls.asset = cls.__dict__.get("asset", cls.yields.asset if cls.yields else "")
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
        with bar(self.title) as progress, truth.sealed():
            finding = self.attempt(held, context or Context(progress=progress))
        return self.judge(finding, held, truth)

    def attempt(self, held: tuple[Access, ...], context: Context) -> Finding[Won]:
        """Run blind, and fill in what every finding carries."""
        self._accept(held)
        context.begin()
        before, start = context.budget.points, time.perf_counter()
        counted = tuple(metered(access, context.budget) for access in held)
        values_alone = not any(issubclass(need, Gradients) for need in self.needs)
        account = Account(context.asker, context.budget, values_alone=values_alone)
        partial = False
        finding: Finding[Won]
        try:
            context.budget.check()
            self._refuse_raw(held)
            with charged(held, account):
                finding = self.run(cast(Needs, counted[0] if len(counted) == 1 else counted), context)
            _is_finding(finding, self, "run")
        except NotApplicable as reason:
            finding = Finding.not_applicable(sentence(reason))
        except AttackFailed as reason:
            finding = Finding.failed(sentence(reason))
        except (BudgetSpent, TargetFailed) as reason:
            finding, partial = Finding.failed(sentence(reason)), True
        remarks = (said for access in held if isinstance(access, Weights) for said in access.remarks)
        return replace(
            finding,
            notes=(*finding.notes, *remarks),
            partial=finding.partial or partial,
            remedy=self._remedies(finding),
            taxonomy=finding.taxonomy or self.taxonomy,
            cost=Cost(context.budget.points - before, time.perf_counter() - start, account.rows, account.requests),
            provenance=Provenance(
                attack=self.name,
                role=self.role,
                asset=self.asset,
                title=self.title,
                paper=self.paper,
                options=self.options(),
                claimed=finding.verdict is Verdict.LEAK or finding.onward,
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
        return replace(
            scored,
            loot=finding.loot,
            cost=finding.cost,
            provenance=finding.provenance,
            remedy=self._remedies(scored),
            measured=tuple(name for name, score in scored.scores.items() if finding.scores.get(name) != score),
        )

    @classmethod
    def option_names(cls) -> list[str]:
        return [field.name for field in fields(cast(Any, cls))]

    def options(self) -> dict[str, Any]:
        return asdict(cast(Any, self))

    def within(self, points: int) -> Self:
        """The same as somebody runs it who knows that no more points will be answered; as it is unless it says otherwise."""
        return self

    def _remedies(self, finding: Finding[Won]) -> tuple[Remedy, ...]:
        """The finding's own; else the procedure's, where there is anything to remedy."""
        usual = remedies(self.remedy)
        if finding.remedy and finding.remedy != usual:
            return finding.remedy
        return usual if finding.verdict is Verdict.LEAK or finding.onward else ()

    def _refuse_raw(self, held: tuple[Access, ...]) -> None:
        X = next((access.X for access in held if isinstance(access, TrainingData) and is_raw(access.X)), None)
        if X is not None and not self.raw:
            got, instead = ("sparse ones", "X.toarray()") if is_sparse(X) else ("a table with text or gaps", "numbers")
            raise NotApplicable(f"{self.title} takes dense training points, got {got}; pass {instead} where memory allows")

    def _accept(self, held: tuple[Access, ...]) -> None:
        fits = len(held) == len(self.needs) and all(map(isinstance, held, self.needs))
        if not fits:
            wanted = ", ".join(kind.__name__ for kind in self.needs)
            got = ", ".join(type(access).__name__ for access in held) or "nothing"
            raise BadInput(f"{type(self).__name__} needs ({wanted}), got ({got}); pass what it needs in that order")


class Attack(Procedure[Needs, Won]):
    """A function from what is held to what is won; `Attack[Needs, Yields]` is an edge of the attack graph."""

    role: ClassVar[Role] = "attack"
    yields: ClassVar[type[Access]]


class Baseline(Procedure[Needs, Won]):
    """A published method to compare with. Its loot is measured and goes no further: it is no edge of the graph."""

    role: ClassVar[Role] = "baseline"
    yields: ClassVar[type[Access]]


class Study(Procedure[Needs, Access]):
    """Re-tests a remedy, maps a risk or draws a paper's figure. It wins nothing: what it saw is its evidence."""

    role: ClassVar[Role] = "study"
    yields: ClassVar[None]


def _is_finding(value: object, attack: object, method: str) -> None:
    if not isinstance(value, Finding):
        raise TypeError(f"{type(attack).__name__}.{method} returned {type(value).__name__}; return a Finding")
