"""A model on a server: asked in batches through the ledger, counted before anything is sent, watched for a replacement."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from divulge.arrays import Array
from divulge.contract.service import LOOKING, Account
from divulge.errors import BadInput, TargetFailed
from divulge.targets.ledger import Known, Ledger, Parts, key
from divulge.targets.messages import Answer, Body, UnreadableAnswer, gradients, parsed
from divulge.targets.wire import Refused, Sending, Wire

LOOKED_AT = 2
"Fixed points at which a model is looked at: two, because one may lie where a network is dead."
MORE = 30
"Further ones where answers are classes, or the same at both points, as trees give them: two models share a few of those."
SCALES = 0.1, 1.0, 10.0, 100.0
"Of those further points, in turn: which leaf of a tree a point falls into depends on its size."
SAME, SAME_IN_SINGLE = 1e-10, 1e-6
"Relative differences of one model's answers to the same points, as sums in another order make them."

Guard = Callable[[Any], None]
"Looks at an answer before it is believed, and raises."


def unguarded(said: Any) -> None:
    """Believes every answer."""


@dataclass(frozen=True)
class Exchange:
    """One kind of request: points go in; values, explanations or both come out."""

    wire: Wire
    url: str
    headers: Mapping[str, str]
    body: Body
    answers: Mapping[str, Answer]
    "`value`, `gradient` or both -> where it is."
    item: tuple[int, ...]
    signature: str
    "What a person would have to write to send the same request, without secrets."
    guard: Guard = unguarded

    def ask(self, X: Array, sending: Sending, *, first: bool = False) -> Parts:
        with self.wire.discreet():
            return self._ask(X, sending, first)

    def _ask(self, X: Array, sending: Sending, first: bool) -> Parts:
        headers = {"Content-Type": self.body.type, **self.headers}
        content = self.wire.send("POST", self.url, self.body.filled(X), headers, sending=sending, first=first)
        text = all(answer.decode == "csv" and answer.whole for answer in self.answers.values())
        said = content.decode(errors="replace") if text else parsed(content, self.url)
        self.guard(said)
        found = {what: answer.read(said, len(X), self.url) for what, answer in self.answers.items()}
        return tuple(
            gradients(part, self.item, self.url) if what == "gradient" else part.reshape(len(X), -1)
            for what, part in found.items()
        )


class RemoteService:
    """What an audit knows as `Service`, and what `value` and `gradient` of something held ask."""

    def __init__(
        self, name: str, address: str, exchanges: Mapping[str, Exchange], *, dimension: int, batch: int, single: bool,
        plain: Exchange | None = None,
    ) -> None:  # fmt: skip
        """`plain` asks for values alone, where another request gives both."""
        self.name, self.address = name, address
        "Path, protocol and version: what can be said of a model without asking it. Its host may change, as ports do."
        self.account = Account(LOOKING)
        self.watch: Callable[[], None] = lambda: None
        "Called after every answer."
        self._exchanges, self._plain, self.dimension, self._single = dict(exchanges), plain, dimension, single
        self._batch = 1 if any(exchange.body.alone for exchange in exchanges.values()) else batch
        self._ledger = Ledger(":memory:")
        self._counting = threading.Lock()
        self._unchecked = False
        self._replaced = ""
        self._last: tuple[str, Array, Parts] | None = None
        "Source, points and answers of what was asked last: whoever asks for values asks for gradients next."
        self._looked: Parts = ()
        self.token = uuid.uuid4().hex
        "What tells this model from another one that may be put at its address; any name until somebody has looked."
        self.refused: Callable[[Refused, str], Refused] = lambda error, explains: error
        "What is said where the first look is refused, and at which address it asks for explanations alone."

    @property
    def identity(self) -> str:
        return f"{self.name} answering {self.token}"

    def value(self, X: Array) -> Array:
        return self._ask("value", X)

    def gradient(self, X: Array) -> Array:
        return self._ask("gradient", X)

    def meet(self) -> None:
        """The first look, if nobody has looked yet; it shows whether the model is there and explains itself."""
        if self._looked:
            return
        try:
            self._looked = self._look(first=True)
        except Refused as error:
            alone = self._exchanges["gradient"].url if len(self._different()) == 2 else ""
            raise self.refused(error, alone) from None
        self.token = self._seen()

    def sent_for(self, asker: str) -> tuple[int, int]:
        return self._ledger.sent(asker)

    def check(self, asker: str) -> None:
        """Look again, if somebody was answered since the last look; what a replaced model told them is forgotten."""
        if not self._unchecked:
            return
        looked = self._look()
        self._unchecked = False
        if alike(looked, self._looked) or not alike(looked, self._look()):
            return  # the same, or one that answers differently each time
        for exchange in (*self._different(), *filter(None, [self._plain])):
            self._ledger.forget(self._source(exchange), asker)
        self._last = None
        self._replaced = (
            f"the model at {self.address} was replaced while it was audited; run the audit again, which begins anew "
            "for the new one"
        )
        raise TargetFailed(self._replaced)

    @contextmanager
    def keeping(self, ledger: Ledger, log: Callable[[str], None]) -> Iterator[None]:
        """Keep the books of a run folder: what the same model answered in earlier runs is known.

        A model that was not looked at before is looked at now, so that this too is in the books before it is sent.
        """
        own, first = self._ledger, self.token
        rows, requests = own.sent(LOOKING)
        own.send(LOOKING, -rows, -requests)
        ledger.send(LOOKING, rows, requests)
        self._ledger = ledger
        try:
            self.meet()
            known = ledger.models(self.name)
            here = [model.token for model in known if model.address == self.address]
            same = [model.token for model in known if alike(self._looked, model.looked)]
            if not same and here and not alike(self._looked, self._look()):
                same = here  # no two looks are alike: only its address can tell
            if here and not same:
                log(f"{self.address} answers otherwise than in an earlier run: what it said then is set aside")
            self.token = same[0] if same else self._seen()
            ledger.know(self.name, Known(self.address, self.token, self._looked))
            yield
        finally:
            self._ledger, self.token, self._last = own, first, None

    def _ask(self, what: str, X: Array) -> Array:
        if self._replaced:
            raise TargetFailed(self._replaced)
        self.meet()
        exchange = self._exchanges[what]
        X = self._points(X)
        source, place = self._source(exchange), list(exchange.answers).index(what)
        if self._last is None or self._last[0] != source or not np.array_equal(self._last[1], X):
            if what == "value" and self._plain is not None and self.account.values_alone:
                return self._values(self._plain, source, place, X)
            self._last = source, X, self._answers(exchange, source, X)
        return self._last[2][place].copy()

    def _values(self, plain: Exchange, explained: str, place: int, X: Array) -> Array:
        """Values alone, but for those that came with an explanation before."""
        keys = [key(row) for row in X]
        known = {name: parts[place] for name, parts in self._ledger.recall(explained, list(dict.fromkeys(keys))).items()}
        waiting = {name: row for name, row in zip(keys, X, strict=True) if name not in known}
        if waiting:
            (rows,) = self._answers(plain, self._source(plain), np.stack(list(waiting.values())))
            known |= dict(zip(waiting, rows, strict=True))
        return np.stack([known[name] for name in keys])

    def _answers(self, exchange: Exchange, source: str, X: Array) -> Parts:
        """All that an exchange says of points, from the ledger or the server."""
        keys = [key(row) for row in X]
        known = self._ledger.recall(source, list(dict.fromkeys(keys)))
        waiting = {name: row for name, row in zip(keys, X, strict=True) if name not in known}
        names = list(waiting)
        parts = [names[start : start + self._batch] for start in range(0, len(names), self._batch)]

        def request(part: list[bytes]) -> None:
            rows = self._request(exchange, np.stack([waiting[name] for name in part]))
            self._ledger.keep(source, self.account.asker, part, rows)
            with self._counting:
                known.update((name, tuple(one[number] for one in rows)) for number, name in enumerate(part))
                self._unchecked = True
                self.watch()

        lanes = min(exchange.wire.manners.concurrency, len(parts))
        if lanes < 2:
            for part in parts:
                request(part)
        else:
            with ThreadPoolExecutor(lanes) as pool:
                try:
                    for _ in pool.map(request, parts):
                        pass
                except BaseException:
                    exchange.wire.stopped = True
                    pool.shutdown(cancel_futures=True)
                    raise
                finally:
                    exchange.wire.stopped = False
        rows = [known[name] for name in keys]
        if len({tuple(part.shape for part in row) for row in rows}) > 1:
            raise TargetFailed(
                f"{exchange.url} answered rows of different shapes to the same question; nothing can be concluded from those"
            )
        return tuple(np.stack(parts) for parts in zip(*rows, strict=True))

    def _request(self, exchange: Exchange, X: Array, *, first: bool = False) -> Parts:
        """One request, charged; one whose answer cannot be read is repeated only as often as the auditor allows."""
        sending = Sending(begins=lambda: self._charge(len(X)), unsent=lambda: self._take_back(len(X)))
        for left in range(exchange.wire.manners.repeat, -1, -1):
            try:
                return exchange.ask(X, sending, first=first)
            except UnreadableAnswer:
                if not left:
                    raise
        raise AssertionError("a request is sent at least once")

    def _charge(self, rows: int) -> None:
        with self._counting:
            self.account.send(rows)
            self._ledger.send(self.account.asker, rows)

    def _take_back(self, rows: int) -> None:
        with self._counting:
            self.account.take_back(rows)
            self._ledger.send(self.account.asker, -rows, -1)

    def _seen(self) -> str:
        """A name made of how a model looked."""
        return hashlib.sha256(b"".join(part.tobytes() for part in self._looked)).hexdigest()[:32]

    def _look(self, *, first: bool = False) -> Parts:
        """Answers to fixed points, past the ledger."""
        rng = np.random.default_rng(0)
        asked = self.account
        if asked.asker != LOOKING:
            self.account = Account(LOOKING, asked.budget)
        try:
            seen = self._seen_at(rng.standard_normal((LOOKED_AT, self.dimension)), first)
            if not all(_few_valued(part) for part in seen):
                return seen
            sizes = np.resize(SCALES, (MORE, 1))
            return seen + self._seen_at(sizes * rng.standard_normal((MORE, self.dimension)), first)
        finally:
            self.account = asked

    def _seen_at(self, X: Array, first: bool) -> Parts:
        X = self._points(X)
        lots = [X[start : start + self._batch] for start in range(0, len(X), self._batch)]
        return tuple(
            np.concatenate(parts)
            for exchange in self._different()
            for parts in zip(*(self._request(exchange, lot, first=first) for lot in lots), strict=True)
        )

    def _different(self) -> list[Exchange]:
        return list({id(exchange): exchange for exchange in self._exchanges.values()}.values())

    def _source(self, exchange: Exchange) -> str:
        return _digest(self.identity, exchange.signature)

    def _points(self, X: Array) -> Array:
        """Points as the server will see them: two that it cannot tell apart are one query."""
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or X.shape[1] != self.dimension or not len(X):
            raise BadInput(f"expected query points of shape (n, {self.dimension}), got {X.shape}; reshape them")
        with np.errstate(over="ignore"):
            X = X.astype(np.float32 if self._single else np.float64).astype(float)
        if not np.isfinite(X).all():
            held = "single precision" if self._single else "JSON"
            raise BadInput(f"expected query points that {held} can hold, got NaN or infinity; scale them down")
        return X


@cache
def _digest(*words: str) -> str:
    """A short name for a long one."""
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:32]


def alike(one: Parts, other: Parts) -> bool:
    """Whether two looks are at the same model, as far as rounding lets one tell."""
    if [part.shape for part in one] != [part.shape for part in other]:
        return False
    tolerance = SAME_IN_SINGLE if all(_coarse(part) for part in (*one, *other)) else SAME
    both = zip(one, other, strict=True)
    return all(np.abs(a - b).max() <= tolerance * max(np.abs(a).max(), np.abs(b).max()) for a, b in both)


def _few_valued(part: Array) -> bool:
    """Whether answers are whole numbers, or the same at all points."""
    return bool((part == np.round(part)).all() or (part == part[:1]).all())


def _coarse(part: Array) -> bool:
    """Whether numbers have the digits of single precision, or were written with no more."""
    with np.errstate(over="ignore"):
        single = part.astype(np.float32).astype(float) == part
    return bool(single.all()) or all(float(f"{number:.9g}") == number for number in part.ravel()[:1000])
