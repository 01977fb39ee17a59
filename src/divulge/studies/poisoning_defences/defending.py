"""A pipeline with a defence: points made by someone who knows it, and the models that come of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from divulge.attacks.poisoning.campaign import Split, Terms, contribute, cross_validated, next_batch, validated
from divulge.attacks.poisoning.learners import Learner
from divulge.contract import Array
from divulge.defences import partition, sanitising
from divulge.solvers.bilevel.ascent import Project
from divulge.solvers.bilevel.inner import Diverged

ROUNDS = 2
"How often an attack on cross-validation is made again for the penalty that its points led to."
SURE = 40.0
"Intercept of a part's model that knows one class only."


def campaign(
    defence: str,
    rng: np.random.Generator,
    *,
    learner: Learner,
    split: Split,
    terms: Terms,
    checks: dict[str, Any],
    sizes: Sequence[int],
    strengths: Array,
) -> dict[str, Any]:
    """Points made by someone who knows the defence; for none, against the plain pipeline."""
    setting = "learned" if defence == "re-tuned" else "fixed"
    state: dict[str, Any] = {
        "setting": setting, "split": vars(split), "levels": [], "clean": {"strengths": strengths},
    }  # fmt: skip
    if setting == "learned":
        state["clean"] = {"strengths": validated(learner, split, terms.bounds)}
    project = _evading(defence, learner, split, terms, checks)
    for size in sizes:
        made = contribute(next_batch(state, size), rng, learner=learner, terms=terms, project=project)
        if defence == "cross-validated" and "failed" not in made:
            made = _again(state, size, made, rng, learner, split, terms)
        if "failed" in made:
            return made
        state["levels"].append(made)
    return {kind: np.concatenate([level[kind] for level in state["levels"]]) for kind in ("points", "labels", "begun")}


def _again(
    state: dict[str, Any],
    size: int,
    made: dict[str, Any],
    rng: np.random.Generator,
    learner: Learner,
    split: Split,
    terms: Terms,
) -> dict[str, Any]:
    """The batch that does most once cross-validation on the poisoned points has chosen its penalty."""
    best, reached = made, -np.inf
    for _ in range(ROUNDS + 1):
        item = next_batch({**state, "levels": [*state["levels"], made]}, size)
        after = split.joined(item["points"], item["labels"])
        chosen = cross_validated(learner, after, terms.clean_bounds, np.random.default_rng(0))
        loss = float(learner.plain(after.trainer(learner), split.X.shape[1], chosen[None]).value[0])
        if loss > reached:
            best, reached = {**made, "strengths": chosen}, loss
        if np.array_equal(chosen, made["strengths"]):
            break
        item = {**next_batch(state, size), "strengths": chosen}
        made = contribute(item, rng, learner=learner, terms=terms)
        if "failed" in made:
            break
    return best


def _evading(defence: str, learner: Learner, split: Split, terms: Terms, checks: dict[str, Any]) -> Project | None:
    """Where points stay to get past a filter."""
    if defence == "distance":
        known = sanitising.spheres(split.X_val, split.y_val, checks["share"])
        return lambda points, targets: sanitising.into_spheres(points, learner.labels(targets), known, terms.low, terms.high)
    if defence == "neighbours":
        rule = {"neighbours": checks["neighbours"], "agreement": checks["agreement"]}
        anchors = sanitising.by_neighbours(split.X, split.y, **rule)
        return lambda points, targets: sanitising.past_neighbours(
            points, learner.labels(targets), split.X, split.y, low=terms.low, high=terms.high, anchors=anchors, **rule
        )
    return None


def defended(
    item: tuple[str, dict[str, Any]],
    rng: np.random.Generator,
    *,
    learner: Learner,
    split: Split,
    terms: Terms,
    checks: dict[str, Any],
    sizes: Sequence[int],
    strengths: Array,
    parts: int,
) -> dict[str, Any]:
    """Models of a pipeline with the defence, (levels, ...), and what it left out of clean and of contributed points."""
    defence, made = item
    Ws, bs, chosen, lost = [], [], [], []
    try:
        for count in [0, *np.cumsum(sizes)]:
            mix = split.joined(made["points"][:count], made["labels"][:count])
            kept = _kept(defence, mix, checks)
            sifted = replace(mix, X=mix.X[kept], y=mix.y[kept])
            lost.append([1 - kept[: len(split.X)].mean(), 1 - kept[len(split.X) :].mean() if count else 0.0])
            found = strengths
            if defence == "re-tuned":
                found = validated(learner, sifted, terms.bounds)
            elif defence == "cross-validated":
                found = cross_validated(learner, sifted, terms.clean_bounds, np.random.default_rng(0))
            if defence == "vote":
                W, b = _voters(learner, mix, strengths, parts)
            else:
                trained = learner.plain(sifted.trainer(learner), split.X.shape[1], found[None])
                W, b = trained.W[0], trained.b[0]
            Ws.append(W)
            bs.append(b)
            chosen.append(found)
    except Diverged as reason:
        return {"failed": str(reason)}
    return {"W": np.array(Ws), "b": np.array(bs), "strengths": np.array(chosen), "lost": np.array(lost)}


def _kept(defence: str, mix: Split, checks: dict[str, Any]) -> Array:
    if defence == "neighbours":
        return sanitising.by_neighbours(mix.X, mix.y, neighbours=checks["neighbours"], agreement=checks["agreement"])
    if defence == "distance":
        return sanitising.by_distance(mix.X, mix.y, trusted=(mix.X_val, mix.y_val), share=checks["share"])
    return np.ones(len(mix.X), dtype=bool)


def _voters(learner: Learner, mix: Split, strengths: Array, parts: int) -> tuple[Array, Array]:
    """A model of each part, (parts, outputs, features). One that sees one class names it, one that sees none the first."""
    classes = np.asarray(learner.classes)
    part = partition.assign(mix.X, mix.y, parts)
    outputs = len(learner.targets(classes[:1]))
    W, b = np.zeros((parts, outputs, mix.X.shape[1])), np.zeros((parts, outputs))
    for number in range(parts):
        rows = part == number
        seen = np.unique(mix.y[rows])
        if len(seen) < 2:
            sides = learner.targets(seen if len(seen) else classes[:1])[:, 0]
            b[number] = SURE * (2 * sides - 1 if learner.risk in ("logistic", "softmax") else sides)
            continue
        trainer = learner.trainer(mix.X[rows], mix.y[rows], mix.X_val, mix.y_val)
        trained = learner.plain(trainer, mix.X.shape[1], strengths[None])
        W[number], b[number] = trained.W[0], trained.b[0]
    return W, b
