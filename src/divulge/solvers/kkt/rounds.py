"""Descents in rounds: candidates that others make superfluous give way to new ones, and those that are left go on.

More candidates than points explain the weights however wrong they are, because each has coordinates enough to make up for
the others' mistakes. Multipliers that cost something, however little, make most of them 0: what is left explains the weights
together with few others, and is right far more often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from divulge.arrays import Array
from divulge.solvers.kkt import descent as kkt_descent
from divulge.solvers.kkt.descent import Setup, State, Stationarity

PRICE = 0.17
"""Correlation with what is left of the weights that a candidate needs, times the root of how many there were at first.

Of 1,500 candidates of five searches for 150 photographs, one in seven is like one (cosine above 0.8). Of the 899 that are
needed at no price one in nine, of 156 at this one in four, of 106 at three times as much one in five.
"""
FRESH = 0.35
"New candidates at the beginning of a round, over those at the very beginning."
FAINT = 0.5
"Multipliers of new candidates, over the median of those that stay."
SWEEPS = 1500  # of projected gradients, which leave 1e-4 of what they begin with


def advance(
    objective: Stationarity,
    setup: Setup,
    state: State,
    steps: int,
    edges: Array | None = None,
    check: Callable[[], None] = lambda: None,
) -> State:
    """So many steps more, `setup.steps` in all, over as many rounds as it has; at the end only needed candidates stay."""
    length = -(-setup.steps // setup.rounds)
    goal = min(state["step"] + steps, setup.steps)
    while state["step"] < goal:
        first = state["step"] - state["step"] % length
        round_ = replace(setup, steps=min(length, setup.steps - first), rounds=1)
        inside = state | {"step": state["step"] - first}
        state = state | kkt_descent.advance(objective, round_, inside, goal - state["step"], edges, check)
        state["step"] += first
        if state["step"] == first + round_.steps:
            state = needed(objective, state, setup.softness[1])
            state = state if state["step"] == setup.steps else renewed(setup, state)
    return state


def begin(setup: Setup, signs: Array, axes: int, rng: np.random.Generator) -> State:
    """Candidates at random, and what later rounds need to draw theirs."""
    state = kkt_descent.begin(setup, signs, axes, rng)
    return state | {"seed": int(rng.integers(2**31)), "first signs": state["signs"]}


def needed(objective: Stationarity, state: State, alpha: float) -> State:
    """The candidates that explain the weights together, at a price, with the multipliers by which they do."""
    signs = torch.tensor(state["signs"])
    C = kkt_descent.counted(torch.tensor(state["multipliers"]), signs)
    sizes = C.norm(dim=1, keepdim=True)
    products, right = objective.shares(torch.tensor(state["points"]), C / sizes.clamp_min(1e-30), alpha)
    multipliers, loss = priced(products, right, PRICE / len(state["first signs"]) ** 0.5)
    chosen = np.flatnonzero(multipliers > 0)
    if not len(chosen):
        return state
    found = (C / sizes.clamp_min(1e-30) * signs).numpy()[chosen] * multipliers[chosen, None]
    median = float(np.median(multipliers[chosen]))
    kept = {"points": state["points"][chosen], "multipliers": found / median, "signs": state["signs"][chosen]}
    return _started(state | kept | {"loss": loss, "scale": median})


def renewed(setup: Setup, state: State) -> State:
    """The candidates of a state and new ones at random, of each side in turn."""
    rng = np.random.default_rng([state["seed"], state["step"]])
    signs = state["first signs"][: max(1, round(FRESH * len(state["first signs"])))]
    points = setup.spread * rng.standard_normal((len(signs), state["points"].shape[1]))
    together = {
        "points": np.concatenate([state["points"], points]).astype(np.float32),
        "multipliers": np.concatenate([state["multipliers"], FAINT * np.abs(signs)]).astype(np.float32),
        "signs": np.concatenate([state["signs"], signs]).astype(np.float32),
    }
    return _started(state | together)


def priced(products: Tensor, right: Tensor, price: float) -> tuple[Array, float]:
    """argmin over s ≥ 0 of ½ s·products·s − right·s + price Σ s_i √products_ii, and 1 − 2 right·s + s·products·s there.

    By accelerated projected gradients, which begin anew where they overshoot.
    """
    sizes = products.diagonal().clamp_min(0).sqrt()
    alive = sizes > 0
    sizes = torch.where(alive, sizes, torch.ones_like(sizes))
    A, b = products / (sizes[:, None] * sizes), torch.where(alive, right / sizes - price, torch.zeros_like(right))
    step = 1 / float(torch.linalg.matrix_norm(A, ord=2))
    now, ahead, pace = torch.zeros_like(b), torch.zeros_like(b), 1.0
    for _ in range(SWEEPS):
        following = (ahead - step * (A @ ahead - b)).clamp_min(0)
        if float((ahead - following) @ (following - now)) > 0:
            pace = 1.0
        quicker = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = following + (pace - 1) / quicker * (following - now)
        now, pace = following, quicker
    now = torch.where(alive, now, torch.zeros_like(now))
    loss = 1 - 2 * float((right / sizes) @ now) + float(now @ (A @ now))
    return np.asarray((now / sizes).numpy()), loss


def _started(state: State) -> State:
    """A state whose descent begins anew: nothing is left of the steps before."""
    nothing = {
        f"{name} {what}": np.zeros_like(state[name]) for name in ("points", "multipliers") for what in ("mean", "square")
    }
    return state | nothing
