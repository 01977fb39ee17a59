"""Training of a small network as the inner problem of a bilevel one: called as linear learners are, for any torch module."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn import functional

from divulge.arrays import Array, Layer
from divulge.solvers.bilevel.hypergradient import Hypergradient, Loss, as_function, penalised, reverse, validation
from divulge.solvers.bilevel.inner import Diverged, Trained

ROWS = 1024
"Points that a network is asked about at once: what lies between its layers has to fit into memory. Answers do not \
depend on it."


EACH: Mapping[str, Loss] = {
    "logistic": lambda f, y: functional.binary_cross_entropy_with_logits(f, y, reduction="none").sum(dim=1),
    "softmax": lambda f, y: torch.logsumexp(f, dim=1) - (y * f).sum(dim=1),
    "squared": lambda f, y: (f - y).square().sum(dim=1) / 2,
    "squared_hinge": lambda f, y: functional.relu(1 - y * f).square().sum(dim=1),
}
"Those of `inner.RISKS`, as torch's: (points,) of scores and targets, both (points, outputs)."


def _mean(risk: str, most: float = math.inf) -> Loss:
    """Over points, each of which counts up to a loss."""
    return lambda f, y: EACH[risk](f, y).clamp(max=most).mean()


LOSSES: Mapping[str, Loss] = {risk: _mean(risk) for risk in EACH}
"Their means."


ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    "relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid, "identity": nn.Identity,
}  # fmt: skip
"By the names that scikit-learn gives them."


def dense(layers: Sequence[Layer], activation: str) -> nn.Module:
    """Layers (W (units, inputs), b (units,)) as a module, with the activation between them."""
    steps: list[nn.Module] = []
    for W, b in layers:
        made = nn.Linear(W.shape[1], len(W), dtype=torch.float64)
        made.load_state_dict({"weight": torch.tensor(W), "bias": torch.tensor(b)})
        steps += [made, ACTIVATIONS[activation]()]
    return nn.Sequential(*steps[:-1])


class NetworkTraining:
    """So many steps of gradient descent from the parameters a module has. Called with each problem's own points, it trains
    and differentiates.

    The module takes X's rows (n, features) and says (n, outputs), or (n,) where there is one output; Y is (outputs, n), as
    `inner.RISKS` has its targets; a validation point counts up to a loss of `most`. A copy of the module is trained, in
    evaluation mode, and only what wants gradients.
    """

    def __init__(
        self,
        module: nn.Module,
        X: Array,
        Y: Array,
        X_val: Array,
        Y_val: Array,
        risk: str,
        *,
        steps: int,
        rate: float,
        dtype: npt.DTypeLike = np.float32,
        most: float = math.inf,
    ) -> None:
        if risk not in LOSSES:
            raise ValueError(f"expected a risk among {', '.join(LOSSES)}, got {risk!r}")
        for rows, columns in ((X, Y), (X_val, Y_val)):
            if np.ndim(rows) != 2 or np.ndim(columns) != 2 or len(rows) != np.shape(columns)[1]:
                shapes = f"{np.shape(rows)} and {np.shape(columns)}"
                raise ValueError(f"expected points (n, features) and targets (outputs, n), got {shapes}; see inner.targets")
        self.risk, self.steps, self.dtype, self.most = risk, steps, np.dtype(dtype), most
        self.rate = rate
        "The learning rate: a half or less of the one given, once training diverged at that."
        self.X, self.X_val = self._tensor(X), self._tensor(X_val)
        self.Y, self.Y_val = self._tensor(np.transpose(Y)), self._tensor(np.transpose(Y_val))
        self.module = _Columns(copy.deepcopy(module).to("cpu", self.X.dtype), self.Y.shape[1]).eval()
        if len(self.X_val):
            with torch.no_grad():
                self.module(self.X_val[:1])  # which says whether its outputs fit the targets

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        """Train with points (problems, own, features) that have targets (problems, outputs, own).

        `strengths` (problems, 1) are the logarithms λ of a penalty e^λ/(2n) ‖W‖² on weights of two dimensions or more, n the
        number of points trained on. Without `penalties`, their gradient is left 0. What is trained comes as W (problems, 1,
        parameters), flat and in the module's order, and b is empty.
        A rate at which any of the problems diverges is halved for all of them, and stays so.
        """
        problems = list(zip(points, targets, strengths, strict=True))
        with threadpool_limits(1):  # how sums are rounded must not depend on how many threads there are
            found = [self._one(*problem) for problem in problems]
            while any(one.rate > self.rate for one in found):
                pairs = zip(found, problems, strict=True)
                found = [self._one(*problem) if one.rate > self.rate else one for one, problem in pairs]
        by_points, by_strengths = (
            np.array([one.gradients[part].numpy() for one in found], float).reshape(np.shape(given))
            for part, given in ((0, points), (1, strengths))
        )
        return Trained(
            np.array([one.value for one in found]),
            by_points,
            by_strengths if penalties else np.zeros_like(by_strengths),
            np.array([torch.cat([part.reshape(-1) for part in one.end]).numpy()[None] for one in found], float),
            np.zeros((len(found), 0)),
        )

    def scores(self, W: Array, X: Array) -> Array:
        """What networks with parameters W (problems, 1, parameters) say at X (m, features): (problems, outputs, m)."""
        outputs, start = as_function(self.module)
        sizes, rows = [part.numel() for part in start], self._tensor(X)
        if np.shape(W)[1:] != (1, sum(sizes)):
            raise ValueError(
                f"expected parameters (problems, 1, {sum(sizes)}), got {np.shape(W)}; give what training ended in"
            )
        said = np.empty((len(W), self.Y.shape[1], len(rows)))
        with threadpool_limits(1), torch.no_grad():
            for number, flat in enumerate(self._tensor(W)[:, 0]):
                pieces = zip(flat.split(sizes), start, strict=True)
                parameters = tuple(piece.reshape(part.shape) for piece, part in pieces)
                for first in range(0, len(rows), ROWS):
                    some = slice(first, first + ROWS)
                    said[number, :, some] = outputs(parameters, rows[some]).numpy().T
        return said

    def _one(self, points: Array, targets: Array, strengths: Array) -> Hypergradient:
        loss = LOSSES[self.risk]
        inner, start = penalised(self.module, self.X, self.Y, self._tensor(np.transpose(targets)), loss)
        outer = validation(self.module, self.X_val, self.Y_val, _mean(self.risk, self.most))
        hyper = (self._tensor(points), self._tensor(strengths))
        try:
            found = reverse(inner, outer, start, hyper, steps=self.steps, rate=self.rate)
        except ArithmeticError as error:
            raise Diverged(str(error)) from error
        self.rate = found.rate
        return found

    def _tensor(self, array: Array) -> Tensor:
        """A copy, aligned as torch does it: how sums are rounded can depend on that."""
        return torch.tensor(np.ascontiguousarray(array, self.dtype))


class _Columns(nn.Module):
    """A module whose outputs are always (n, outputs): one output may come as (n,), and for one row as a bare number."""

    def __init__(self, module: nn.Module, outputs: int) -> None:
        super().__init__()
        self.module, self.outputs = module, outputs

    def forward(self, X: Tensor) -> Tensor:
        said: Tensor = self.module(X)
        columns = said if said.ndim > 1 else said.reshape(-1, 1)
        if columns.shape != (len(X), self.outputs):
            wanted, got = (len(X), self.outputs), tuple(said.shape)
            raise ValueError(f"expected outputs {wanted} of the module, one for each row of targets, got {got}")
        return columns
