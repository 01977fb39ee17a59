"""The same audit again, with a defence before what answers or over what is released: before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from divulge import defences, graph, usefulness
from divulge.contract import Access, Finding, Predictions, Procedure, Trial, Truth
from divulge.defences.asking import Count, QueryLimit
from divulge.errors import BadInput, BudgetSpent, StorageError, TargetFailed, sentence
from divulge.graph import Held, Step
from divulge.runner import Runner, one_blas_thread
from divulge.storage import fingerprint
from divulge.usefulness import Kept

Told = str | Mapping[str, Any]
"A defence as a table, or in short: `rounding=3`."


@dataclass(frozen=True, eq=False)
class Plan:
    """A defence, and what of the things held it can stand before."""

    told: Mapping[str, Any]
    defence: defences.Defence
    guarded: tuple[str, ...]

    @property
    def words(self) -> str:
        return defences.words(self.told)

    @property
    def counts(self) -> bool:
        """Whether what it answers depends on what was asked before."""
        return isinstance(self.defence, QueryLimit) or bool(getattr(self.defence, "fresh", False))

    def touches(self, step: Step) -> bool:
        return not set(step.roots).isdisjoint(self.guarded)


def chosen(defend: Told | Iterable[Told], things: Sequence[Held]) -> list[Plan]:
    """What is to be tried, looked at before anything runs."""
    if not isinstance(defend, str | Mapping | Iterable):
        raise BadInput(f"expected defences such as 'rounding=3', or a list of them, got {defend!r}; correct it")
    listed = [defend] if isinstance(defend, str | Mapping) else list(defend)
    plans: list[Plan] = []
    for given in listed:
        table = defences.spelled(given, defences.DEFENCES)
        settings = {key: value for key, value in table.items() if key not in ("name", "seed")}
        defence = defences.made(table["name"], settings, table.get("seed", 0))
        kinds = defences.guards(defence, table["name"])
        guarded = tuple(thing.name for thing in things if _fits(thing.kind, kinds))
        if not guarded:
            listing = ", ".join(kind.kind for kind in kinds)
            got = ", ".join(dict.fromkeys(thing.kind.kind for thing in things)) or "nothing"
            raise BadInput(
                f"the defence {defences.words(table)!r} can stand before {listing}, and what is held is {got}; "
                "leave it out, or hold what it guards"
            )
        if table in [plan.told for plan in plans]:
            raise BadInput(f"expected every defence once, got {defences.words(table)!r} twice; leave one out")
        plans.append(Plan(table, defence, guarded))
    return plans


class Again:
    """One more pass over the graph, behind one defence: only what goes back to something guarded is run again."""

    def __init__(
        self, plan: Plan, things: Sequence[Held], runner: Runner, about: Callable[[Iterable[str]], Truth],
    ) -> None:  # fmt: skip
        self.plan, self.things, self.runner, self.about = plan, things, runner, about
        self.seed = int(plan.told.get("seed", runner.seed))
        self.findings: list[Finding[Any]] = []
        self.kept: Kept = {}
        self.unmeasured: list[str] = []
        self.complete = False
        self._refused = ""
        self.guarded = {thing.name: made for thing in things if (made := self._guarded(thing)) is not None}
        if not self.guarded:
            raise BadInput(f"the defence {plan.words!r} cannot stand before anything that is held: {self._refused}")
        self.plan = replace(plan, guarded=tuple(self.guarded))

    @property
    def trial(self) -> Trial:
        plan = self.plan
        return Trial(
            plan.words, plan.guarded, tuple(self.findings), dict(self.kept), dict(plan.told),
            partial=not self.complete, unmeasured=tuple(self.unmeasured),
        )  # fmt: skip

    def go(self, attacks: Sequence[Procedure[Any, Any]], others: Iterable[Held], save: Callable[[], object]) -> None:
        """Run what is touched again; `others` is what was won from the rest, which is as it was."""
        self.runner.observer.log(f"Again, behind {self.plan.words} before {', '.join(self.plan.guarded)}:")

        def execute(step: Step) -> Held | None:
            if not self.plan.touches(step):
                return None
            finding = self._finding(step)
            self.findings.append(finding)
            save()
            return graph.won(step, finding)

        held = [self.guarded.get(thing.name, thing) for thing in self.things]
        if isinstance(self.plan.defence, QueryLimit):  # whoever knows of it keeps to it
            attacks = [attack.within(self.plan.defence.points) for attack in attacks]
        graph.pursue([*held, *others], attacks, execute)
        self.complete = self._measure() and not any(finding.partial for finding in self.findings)

    def _finding(self, step: Step) -> Finding[Any]:
        """What does not fit a defended answer is nobody's mistake, so each step counts as one of several."""
        step = replace(step, choices=step.choices + 1)
        truth = self.about(step.roots)
        asked = [thing.name for thing in step.inputs if thing.name in self.guarded and issubclass(thing.kind, Predictions)]
        if not asked or not self.plan.counts:
            return self.runner.execute(step, truth)
        counts: list[Count] = []
        plain = {thing.name: thing.access for thing in self.things}
        inputs = [self._anew(thing, plain[thing.name], counts) if thing.name in asked else thing for thing in step.inputs]

        def ending() -> bool:
            """Scoring may go on beyond a limit, and who ran into it would run into it again."""
            reached = any(count.reached for count in counts)
            for count in counts:
                count.lifted = True
            return reached

        return self.runner.execute(replace(step, inputs=tuple(inputs)), truth, ending)

    def _anew(self, thing: Held, plain: Any, counts: list[Count]) -> Held:
        """The same guarded thing as nobody has asked it: every attack has a limit, or fresh noise, of its own."""
        name, defence = self.plan.told["name"], self.plan.defence
        if isinstance(defence, QueryLimit):
            limited, count = defence.counted(plain)
            counts.append(count)
            return replace(thing, access=defences.called(limited, plain, defence, name, self.seed))
        return replace(thing, access=defences.behind(plain, defence, name, self.seed))

    def _guarded(self, thing: Held) -> Held | None:
        """None of what is not guarded."""
        defence, access = self.plan.defence, thing.access
        if thing.name not in self.plan.guarded or access is None:
            return None
        try:
            if isinstance(access, Predictions):
                made: Access = defences.behind(access, defence, self.plan.told["name"], self.seed)
            else:
                made = defence.release(access, self.seed)  # type: ignore[attr-defined]  # what guards these has it
        except BudgetSpent as reason:  # nothing is left to find out with whether it can stand there
            raise BadInput(str(reason)) from None
        except (StorageError, TargetFailed):
            raise
        except BadInput as error:
            self._refused = str(error)
            return None
        return replace(thing, access=made, fingerprint=fingerprint(made))

    def _measure(self) -> bool:
        """What the defence costs users; False where the budget or a silent server leaves it unknown."""
        held = {thing.name: thing.access for thing in self.things if thing.access is not None}
        for thing in self.things:
            if thing.name not in self.guarded or thing.access is None:
                continue
            # A limit leaves the answers within it as they are.
            limits = isinstance(self.plan.defence, QueryLimit)
            guarded = thing.access if limits else self.guarded[thing.name].access
            assert guarded is not None
            try:
                with one_blas_thread():
                    truth = self.about((thing.name,))
                    found = usefulness.measured(thing.access, guarded, truth, held, self.runner.budget)
            except (BudgetSpent, TargetFailed) as reason:
                self.runner.observer.log(f"What {self.plan.words} costs users was not measured: {reason}.")
                return False
            except StorageError:
                raise
            except Exception as error:  # a model's own bug must not cost the audit its findings
                self.runner.observer.log(sentence(f"{self.plan.words} on {thing.name} was not measured: {error}"))
                found = {}
            if not found:
                self.unmeasured.append(thing.name)
            several = len(self.guarded) > 1
            self.kept |= {f"{name} of {thing.name}" if several else name: both for name, both in found.items()}
        return True


def _fits(kind: type[Access], kinds: tuple[type[Access], ...]) -> bool:
    """Whether a thing is of a kind that is guarded; who answers gradients is no plain API of values."""
    best = next((one for one in kind.__mro__ if one in _GUARDED), None)
    return best in kinds


_GUARDED = {kind for kinds in defences.GUARDS.values() for kind in kinds}
