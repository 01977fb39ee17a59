"""One hyper-iteration of poisoning: training, and its gradient in 17 points and a penalty, in milliseconds, side by side.

    python bench/hypergradient.py
    python bench/hypergradient.py --rounds 21 --strength 4

Logistic regression on MNIST 0 or 8, from the samples inside the package: 512 training points, 68 poisoning points that stay
and 17 that move, so n=597, d=784; T=150 steps at a rate of 0.1. One thread, processor time, medians over rounds in which
every method takes its turn. An error is the largest in the gradient of the points, relative to its largest entry, beside
double precision.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional

from divulge import datasets
from divulge.solvers.bilevel import hypergradient
from divulge.solvers.bilevel.implicit import Converged
from divulge.solvers.bilevel.inner import RISKS, Shared
from divulge.solvers.bilevel.unrolled import EarlyStopped

TRAINING, FROZEN, OWN = 512, 68, 17
STEPS, RATE = 150, 0.1
MOVE = 0.1
"By how much a point moves between two hyper-iterations of training to the end, which starts where the last one ended."
LEAST = 0.1
"Seconds that a method is timed for at a turn: quick ones are repeated."


@dataclass(frozen=True)
class Problem:
    """What is shared, and batches of own points (problems, 17, 784) with their targets (problems, 1, 17)."""

    shared: Shared
    points: np.ndarray
    targets: np.ndarray
    strength: float

    def first(self, problems: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.points[:problems], self.targets[:problems], np.full((problems, 1), self.strength)


def problem(strength: float, problems: int, seed: int) -> Problem:
    """Poisoning points begin as validation points with the other label."""
    digits = datasets.load("mnist-0-8", samples=683, seed=seed)
    X, y = digits.X.reshape(len(digits.X), -1), (digits.y > 0).astype(float)
    X_val, y_val, rng = X[TRAINING:], y[TRAINING:], np.random.default_rng(seed)
    frozen = rng.choice(len(X_val), FROZEN, replace=False)
    X, y = np.concatenate([X[:TRAINING], X_val[frozen]]), np.concatenate([y[:TRAINING], 1 - y_val[frozen]])
    rows = np.array([rng.choice(len(X_val), OWN, replace=False) for _ in range(problems)])
    shared = Shared(X, y[None], X_val, y_val[None], RISKS["logistic"])
    return Problem(shared, X_val[rows], 1 - y_val[rows][:, None], strength)


class ByTorch:
    """The same training in torch. Each method returns the gradient in the points that move, and has that in λ as well."""

    def __init__(self, given: Problem, dtype: torch.dtype = torch.float32) -> None:
        shared = given.shared
        points, targets, _ = given.first(1)
        self.X, self.P, self.X_val = (torch.tensor(part, dtype=dtype) for part in (shared.X, points[0], shared.X_val))
        self.y = torch.tensor(np.concatenate([shared.Y[0], targets[0, 0]]), dtype=dtype)
        self.y_val = torch.tensor(shared.Y_val[0], dtype=dtype)
        self.whole, self.log = torch.cat([self.X, self.P]), torch.tensor(given.strength, dtype=dtype)
        self.n = len(self.y)
        self.start = torch.zeros(self.X.shape[1], dtype=dtype), torch.zeros((), dtype=dtype)
        module = torch.nn.Linear(self.X.shape[1], 1, dtype=dtype)
        module.load_state_dict({"weight": self.start[0][None], "bias": self.start[1][None]})
        labels = self.y[: len(self.X)], self.y[len(self.X) :]
        self.module_inner, self.module_start = hypergradient.penalised(module, self.X, *labels, hypergradient.logistic)
        self.module_outer = hypergradient.validation(module, self.X_val, self.y_val, hypergradient.logistic)

    def loss(self, w: Tensor, b: Tensor, X: Tensor, log: Tensor) -> Tensor:
        fit = functional.binary_cross_entropy_with_logits(X @ w + b, self.y)
        return fit + log.exp() / (2 * self.n) * (w @ w)

    def apart(self, w: Tensor, b: Tensor, P: Tensor, log: Tensor) -> Tensor:
        """The same loss, in which points that do not move need no derivatives."""
        fit = functional.binary_cross_entropy_with_logits(torch.cat([self.X @ w, P @ w]) + b, self.y)
        return fit + log.exp() / (2 * self.n) * (w @ w)

    def outer(self, w: Tensor, b: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(self.X_val @ w + b, self.y_val)

    def trained(self, loss: Callable[..., Tensor], data: Tensor) -> list[tuple[Tensor, Tensor]]:
        states = [self.start]
        for _ in range(STEPS):
            w, b = (part.detach().requires_grad_() for part in states[-1])
            g_w, g_b = torch.autograd.grad(loss(w, b, data, self.log), (w, b))
            states.append((w.detach() - RATE * g_w, b.detach() - RATE * g_b))
        return states

    def published(self) -> Tensor:
        """Algorithm 1: two products with second derivatives a step, lines 8 and 9, all of X a variable."""
        states = self.trained(self.loss, self.whole)
        w, b = (part.detach().requires_grad_() for part in states.pop())
        back = torch.autograd.grad(self.outer(w, b), (w, b))
        X, log = self.whole.detach().requires_grad_(), self.log.detach().requires_grad_()
        d_X, d_log = torch.zeros_like(X), torch.zeros_like(log)
        for state in reversed(states):
            w, b = (part.detach().requires_grad_() for part in state)
            g_w, g_b = torch.autograd.grad(self.loss(w, b, X, log), (w, b), create_graph=True)
            along = g_w @ back[0] + g_b * back[1]
            turn_w, turn_b = torch.autograd.grad(along, (w, b), retain_graph=True)
            turn_X, turn_log = torch.autograd.grad(along, (X, log))
            back = back[0] - RATE * turn_w, back[1] - RATE * turn_b
            d_X, d_log = d_X - RATE * turn_X, d_log - RATE * turn_log
        return d_X[-OWN:]

    def through(self, loss: Callable[..., Tensor], data: Tensor) -> Tensor:
        """Autograd through the whole loop, kept as one graph."""
        data, log = data.detach().requires_grad_(), self.log.detach().requires_grad_()
        w, b = (part.clone().requires_grad_() for part in self.start)
        for _ in range(STEPS):
            g_w, g_b = torch.autograd.grad(loss(w, b, data, log), (w, b), create_graph=True)
            w, b = w - RATE * g_w, b - RATE * g_b
        return torch.autograd.grad(self.outer(w, b), (data, log))[0][-OWN:]

    def plain(self) -> Tensor:
        return self.through(self.loss, self.whole)

    def tuned(self) -> Tensor:
        return self.through(self.apart, self.P)

    def tuned_by_hand(self) -> Tensor:
        """Autograd through a loop in which the gradient of the training loss is written out."""
        P, log = self.P.detach().requires_grad_(), self.log.detach().requires_grad_()
        w, b = self.start
        m, shrink = len(self.X), 1 - RATE * log.exp() / self.n
        for _ in range(STEPS):
            slopes = (torch.sigmoid(torch.cat([self.X @ w, P @ w]) + b) - self.y) * (RATE / self.n)
            w, b = shrink * w - slopes[:m] @ self.X - slopes[m:] @ P, b - slopes.sum()
        return torch.autograd.grad(self.outer(w, b), (P, log))[0]

    def walked(self) -> Tensor:
        """States kept, then one vector-Jacobian product a step of the map from one state to the next."""
        states = self.trained(self.apart, self.P)
        w, b = (part.detach().requires_grad_() for part in states.pop())
        back = torch.autograd.grad(self.outer(w, b), (w, b))
        P, log = self.P.detach().requires_grad_(), self.log.detach().requires_grad_()
        d_P, d_log = torch.zeros_like(P), torch.zeros_like(log)
        for state in reversed(states):
            w, b = (part.detach().requires_grad_() for part in state)
            g_w, g_b = torch.autograd.grad(self.apart(w, b, P, log), (w, b), create_graph=True)
            *back, more_P, more_log = torch.autograd.grad((w - RATE * g_w, b - RATE * g_b), (w, b, P, log), back)
            d_P, d_log = d_P + more_P, d_log + more_log
        return d_P

    def reverse(self) -> Tensor:
        asked = self.module_inner, self.module_outer, self.module_start, (self.P, self.log)
        return hypergradient.reverse(*asked, steps=STEPS, rate=RATE).gradients[0]


class Ascent:
    """Hyper-iterations of training to the end: every call moves the points along the gradient of the last."""

    def __init__(self, given: Problem) -> None:
        self.train, (self.P, self.Y, self.lam) = Converged(given.shared), given.first(1)
        self.slopes = np.ones_like(self.P)

    def __call__(self) -> np.ndarray:
        self.P = np.clip(self.P + MOVE * self.slopes / np.linalg.norm(self.slopes, axis=2, keepdims=True), 0, 1)
        self.slopes = self.train(self.P, self.Y, self.lam).point_gradients
        return self.slopes


def seconds(work: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def main(rounds: int, strength: float, seed: int) -> None:
    given = problem(strength, 32, seed)
    shared, torched = given.shared, ByTorch(given)
    exact = ByTorch(given, torch.float64).plain().numpy()
    batch = EarlyStopped(shared, steps=STEPS, rate=RATE, dtype=np.float64)(*given.first(32)).point_gradients
    end = Converged(shared, tolerance=1e-12)(*given.first(1)).point_gradients

    def early(problems: int) -> Callable[[], np.ndarray]:
        train = EarlyStopped(shared, steps=STEPS, rate=RATE)
        return lambda: train(*given.first(problems)).point_gradients

    ascent = Ascent(given)
    for _ in range(20):
        moved = ascent()
    later = Converged(shared, tolerance=1e-12)(ascent.P, ascent.Y, ascent.lam).point_gradients
    methods: list[tuple[str, int, Callable[[], object], float]] = []

    def error(found: object, known: np.ndarray) -> float:
        return float(np.abs(np.asarray(found).reshape(known.shape) - known).max() / np.abs(known).max())

    def add(name: str, work: Callable[[], object], known: np.ndarray, problems: int = 1) -> None:
        methods.append((name, problems, work, error(work(), known)))

    add("a  Algorithm 1 as published: products with second derivatives, all of X a variable", torched.published, exact)
    add("b  autograd through the loop, all of X a variable", torched.plain, exact)
    add("c  tuned autograd through the loop: only the 17 points are variables", torched.tuned, exact)
    add("c' the same, with the gradient of the training loss written by hand", torched.tuned_by_hand, exact)
    add("d  as hypertorch does: states kept, one vector-Jacobian product a step back", torched.walked, exact)
    add("e  ours, any torch module: hypergradient.reverse", torched.reverse, exact)
    add("f  ours, linear: EarlyStopped, one problem", early(1), exact)
    add("g  ours, linear: EarlyStopped, a problem of a batch of 16", early(16), batch[:16], 16)
    add("g  ours, linear: EarlyStopped, a problem of a batch of 32", early(32), batch, 32)
    add("h  ours, linear: Converged, from 0", lambda: Converged(shared)(*given.first(1)).point_gradients, end)
    methods.append(("h  ours, linear: Converged, from the last end, points moving", 1, ascent, error(moved, later)))

    times = [max(1, round(LEAST / seconds(work, 2))) for _, _, work, _ in methods]
    spent = np.array(
        [
            [seconds(work, count) / problems for (_, problems, work, _), count in zip(methods, times, strict=True)]
            for _ in range(rounds)
        ]
    )
    middle = 1000 * np.median(spent, axis=0)
    low, high = 1000 * np.quantile(spent, [0.25, 0.75], axis=0)
    print(f"MNIST 0 or 8, n={len(shared.X) + OWN}, d=784, {OWN} points move, λ={strength}, {rounds} rounds, one thread")
    print(f"a to g: T={STEPS} steps from 0, float32. h: trained to the end, float64, which is another gradient.")
    print(f"autograd and EarlyStopped, both in float64, differ by {error(batch[0], exact):.0e}\n")
    print(f"{'ms':>7}  {'quartiles':>13}  {'c / this':>8}  {'error':>7}")
    for (name, _, _, off), took, least, most in zip(methods, middle, low, high, strict=True):
        print(f"{took:7.1f}  {f'{least:.1f}-{most:.1f}':>13}  {middle[2] / took:8.1f}  {off:7.0e}  {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--strength", type=float, default=1.5, help="λ, the logarithm of the penalty")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        main(asked.rounds, asked.strength, asked.seed)
