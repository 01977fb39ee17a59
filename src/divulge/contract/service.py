"""A model on a server, as an audit sees it: what is sent is counted before it is sent, for whoever asks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from divulge.contract.context import Budget

if TYPE_CHECKING:
    from divulge.contract.access import Access


LOOKING, SCORING = "looking", "scoring"
"Who asks when no attack does: an audit that looks at a model before and after, and one that scores."


@dataclass
class Account:
    """Who asks, what they may spend, and what has been sent for them."""

    asker: str = ""
    "As the books of the server call them; none is like another where it is empty."
    budget: Budget = field(default_factory=Budget)
    rows: int = 0
    requests: int = 0
    values_alone: bool = False
    "Whether they want no explanations, which a server then need not make."

    def __post_init__(self) -> None:
        self.asker = self.asker or uuid.uuid4().hex

    def send(self, rows: int) -> None:
        """Before a request is sent: refuses what the budget does not hold."""
        self.budget.send(rows)
        self.rows += rows
        self.requests += 1

    def take_back(self, rows: int) -> None:
        """A request that never left, because nobody took it."""
        self.budget.rows -= rows
        self.rows -= rows
        self.requests -= 1


class Service(Protocol):
    """What answers behind an address."""

    account: Account
    "Who is charged for what is sent."
    token: str
    "What tells the model from another one at its address; a part of the identity of what asks it."
    watch: Callable[[], None]
    "Called after every answer."

    def sent_for(self, asker: str) -> tuple[int, int]:
        """Rows and requests that were sent for somebody, in earlier runs too."""
        ...

    def check(self, asker: str) -> None:
        """Raises TargetFailed where the model no longer answers as it did at first, and forgets what it told them since."""
        ...

    def keeping(self, ledger: Any, log: Callable[[str], None]) -> AbstractContextManager[None]:
        """Keep the books of a run folder."""
        ...


def services(held: Iterable[Access]) -> list[Service]:
    """The servers behind what is held, each once."""
    found = (getattr(access, "service", None) for access in held)
    return list({id(service): service for service in found if service is not None}.values())


@contextmanager
def charged_to(service: Service, account: Account) -> Iterator[None]:
    """Whatever a server is sent meanwhile is charged to an account."""
    before, service.account = service.account, account
    try:
        yield
    finally:
        service.account = before


@contextmanager
def charged(held: Iterable[Access], account: Account) -> Iterator[None]:
    """Whatever is sent meanwhile is charged to one account, which begins with what it was charged in earlier runs."""
    asked = services(held)
    with ExitStack() as stack:
        for number, service in enumerate(asked):
            if not number:  # all servers of an audit have the same books
                account.rows, account.requests = service.sent_for(account.asker)
            stack.enter_context(charged_to(service, account))
        yield
