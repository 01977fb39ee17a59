"""Whether theorem 4.2 vouches for the margin as a test of membership, on the auditor's own data, and for how much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from divulge.attacks.membership import scoring
from divulge.contract import Candidates, Finding, Membership, Score, TrainingData, Truth, Weights
from divulge.solvers.margin import kkt_residual, max_margin, near_orthogonal
from divulge.solvers.margin.near_orthogonal import Certificate

PAPER = "Smorodinsky et al. 2024, Provable Privacy Attacks on Trained Shallow Neural Networks, arXiv:2410.07632"
CEILING = "most that a fresh point can reach, in margins"
BELOW = "non-members certified below the margin"
NEAR = 0.05
"KKT residual up to which a network counts as one that has stopped moving."
MOST = 2000
"Training points for which the residual is computed: more take minutes."


def certified(finding: Finding[Membership], candidates: Candidates, truth: Truth) -> Finding[Membership]:
    """The finding with what the theorem guarantees on the true training data, or with the numbers that leave it empty."""
    known = truth.get(TrainingData)
    if known is None or finding.loot is None or known.X.shape[1] != candidates.X.shape[1]:
        return finding
    network = truth.get(Weights)
    centred = (lambda X: np.asarray(X, dtype=float)) if network is None else network.centred
    X = np.asarray(centred(known.X), dtype=float)
    found = near_orthogonal.certificate(X)
    notes, scores = [_words(found), _conditions(network, known)], dict(finding.scores)
    if found.ratio is not None:
        scores[CEILING] = Score(found.ratio, 1.0, "no certificate", better="lower", speaks=False)
    member = scoring.members_of(truth, candidates, len(finding.loot.scores), finding.loot.records)
    if member is not None and found.finer and not member.all():
        below = near_orthogonal.bound(X, centred(candidates.X[~member])) < 1
        scores[BELOW] = Score(float(below.mean()), 0.0, "no certificate", speaks=False)
    return replace(finding, scores=scores, notes=(*finding.notes, *notes))


def _words(found: Certificate) -> str:
    numbers = (
        f"{found.points:,} training points with ‖x‖² from {found.least_norm:.4g}, inner products up to {found.overlap:.4g}: "
        f"3n(p+1) = {3 * found.points * (found.overlap + 1):.4g} against R²+1 = {found.least_norm + 1:.4g}"
    )
    if found.ratio is not None:
        return (
            f"Theorem 4.2 certifies the test ({numbers}): every training point is on the margin, and whoever has no larger "
            f"inner product with one than they with each other stays below {found.ratio:.3g} of it."
        )
    finer = (
        "; with each inner product in its own place instead of the largest in all, training points are on the margin all "
        "the same"
        if found.finer
        else ""
    )
    return f"Theorem 4.2 is vacuous here ({numbers}, which would have to be larger){finer}."


def _conditions(network: Weights | None, known: TrainingData) -> str:
    """What the theorem assumes of the network, as far as that is known."""
    if network is None:
        return (
            "The theorem is about ReLU networks of two layers without an output bias that have stopped moving; whether the "
            "model is one is not known here (give the true weights), and the rule stands without its certificate."
        )
    if len(network.layers) != 2 or np.any(network.layers[-1][1]) or len(network.layers[-1][1]) > 1:
        what = f"{len(network.layers)} layers and {len(network.layers[-1][1])} outputs"
        return (
            f"The theorem does not apply to this network ({what}; it needs two layers, one output and no output bias): the "
            "rule stands without its certificate."
        )
    X = np.asarray(network.centred(known.X), dtype=float)
    outputs = network.predict(known.X)
    sides = max_margin.signed_labels(known.y, outputs[:, 0])
    least = float(max_margin.margins(outputs, sides).min())
    if least <= 0:
        return f"The theorem does not apply: a training point is on the wrong side, the margin {least:.3g} is not positive."
    if len(X) > MOST:
        return f"Whether the network has stopped moving was not computed for more than {MOST:,} training points."
    residual = kkt_residual.residual(list(network.layers), X, sides).total
    near = "near enough to" if residual <= NEAR else "too far from"
    return f"The network is {near} a KKT point for the theorem: its residual is {residual:.3g}, at most {NEAR:g} is asked."
