"""Fit what `divulge.risk` places trainings by, on src/divulge/training_risk/measured.csv; writes fitted.json beside it.

    python scripts/fit_risk.py

A logistic regression of the share of images that come back, on a few features of the recipe, every recipe of weight 1. What
it says of each recipe when that, and a tenth of all others, were left out is what the intervals are made of.
"""

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from divulge.arrays import Array
from divulge.contract import HeatMap
from divulge.report import notebook
from divulge.training_risk.features import features
from divulge.training_risk.measured import HALF, Measured, measured
from divulge.training_risk.placing import spread
from divulge.training_risk.recipe import Recipe, spell

HOME = Path(__file__).parent.parent
OUT = HOME / "src" / "divulge" / "training_risk" / "fitted.json"
PAGE = HOME / "docs" / "training-risk.md"
CENTRE: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-3, "steps": 1200}
"As in bench/measure_risk.py."
DESIGNS = {
    "drawn from the whole space": ("random",),
    "drawn where the start has neither stayed nor gone": ("near",),
    "chosen where an earlier map was wrong or had little to go by": ("chosen",),
    "of the two tables above": ("plane", "axis"),
}
WIDE = 130
"Characters of a line of the page."
MANY = 100
"Images from which an attack takes minutes, so that few recipes have more."
ALONG = "lr / (1 − momentum) · weight decay · steps"
SOFT = 2.0
"""Inverse strength of the penalty: left out in tenths, 0.5, 1, 2 and 4 put 29, 29, 28 and 27 of 239 recipes drawn or chosen
on the wrong side of half."""
FOLDS = 10


def logistic(X: Array, shares: Array, soft: float = SOFT) -> LogisticRegression:
    """Every row once as a leak and once as none, with the share and the rest as weights."""
    both = np.concatenate([shares, 1 - shares]) + 1e-9
    told = np.repeat([1, 0], len(X))
    return LogisticRegression(C=soft, max_iter=10_000).fit(np.concatenate([X, X]), told, both)


def of_half(left_out: Array, shares: Array) -> tuple[float, float]:
    """Slope and offset of the log-odds that half or more come back, in those of a recipe that was left out."""
    fitted = LogisticRegression(C=np.inf).fit(left_out[:, None], shares >= HALF)
    return round(float(fitted.coef_[0, 0]), 4), round(float(fitted.intercept_[0]), 4)


def placed_left_out(left_out: Array, shares: Sequence[tuple[float, ...]]) -> list[tuple[float, float]]:
    """Interval of every recipe, by the others."""
    everyone = np.arange(len(left_out))
    rest = (np.delete(everyone, place) for place in everyone)
    return [spread(left_out[told], [shares[int(one)] for one in told], left_out[place]) for place, told in enumerate(rest)]


def plane(known: Sequence[Measured]) -> tuple[Array, Array, Array, int]:
    """Starts, decays, mean shares of what was trained at both, and the least number of trainings of one."""
    cells = [one for one in known if one.cell == "plane"]
    starts = np.array(sorted({one.recipe.start for one in cells}))
    decays = np.array(sorted({round(one.recipe.decay, 6) for one in cells}))
    shares = np.full((len(starts), len(decays)), np.nan)
    for one in cells:
        row, column = np.searchsorted(starts, one.recipe.start), np.searchsorted(decays, round(one.recipe.decay, 6))
        shares[row, column] = one.share
    return starts, decays, shares, min(len(one.shares) for one in cells)


def drawn(starts: Array, decays: Array, shares: Array) -> str:
    """The plane as a picture."""
    made = HeatMap(
        "Share of 40 digits that come back",
        ALONG,
        "start of the first layer, log10 of torch's own",
        shares,
        decays,
        np.log10(starts),
        "share",
        limits=(0.0, 1.0),
    )
    found = re.search(r"<svg.*</svg>", notebook.figure(made), re.DOTALL)
    if found is None:
        raise SystemExit("expected a drawing, got none; pip install 'divulge[report]'")
    return found[0].replace("currentColor", "#777777") + "\n"


def tables(known: Sequence[Measured], left_out: Array) -> str:
    """What the page says was measured."""
    starts, decays, shares, fewest = plane(known)
    usual = min((one for one in known if one.cell == "plane"), key=off_centre)
    lines = [
        "![Share of 40 digits that come back, by start and decay](training-risk.svg)",
        "",
        f"Share of 40 digits that come back, by start (rows) and {ALONG} (columns): 784-200-10, single precision, momentum "
        f"0.9, rate 0.1, 1,200 steps; the mean of {fewest} trainings or more, each on digits of its own.",
        "",
        f"| start | {' | '.join(f'{decay:g}' for decay in decays)} |",
        f"|---|{'---|' * len(decays)}",
    ]
    for start, row in zip(starts, shares, strict=True):
        lines.append(f"| {start:g} | {' | '.join('–' if np.isnan(share) else f'{share:.2f}' for share in row)} |")
    lines += [
        "",
        f"One factor changed at a time, beside 40 digits, start 1, decay 5e-3, where {usual.share:.2f} come back (null "
        f"{np.mean(usual.nulls):.2f}). The null is the mean over trainings.",
        "",
        "| what is changed | share back, each training | trainings | null |",
        "|---|---|---|---|",
    ]
    for one in known:
        if one.cell == "axis":
            told = ", ".join(f"{share:.2f}" for share in one.shares)
            lines.append(f"| {changed(one.recipe)} | {told} | {len(one.shares)} | {np.mean(one.nulls):.2f} |")
    parts = ["\n".join(lines), *counted(known)]
    bullets = "\n".join(wrapped(f"- {line}", "  ") for line in summary(known, left_out))
    return "\n\n".join([*(wrapped(part) for part in parts), bullets])


def wrapped(text: str, later: str = "") -> str:
    """Prose as wide as the page; tables and pictures stay as they are."""
    paragraphs = text.split("\n")
    return "\n".join(
        one if one[:1] in ("|", "!") else textwrap.fill(one, WIDE, subsequent_indent=later) for one in paragraphs
    )


def leaky(some: Sequence[Measured]) -> int:
    return sum(one.share >= HALF for one in some)


def counted(known: Sequence[Measured]) -> list[str]:
    """How much the map stands on."""
    trainings = sum(len(one.shares) for one in known)
    nulls = [null for one in known for null in one.nulls]
    adaptive = [one for one in known if one.recipe.adaptive]
    decayed = [one for one in adaptive if one.recipe.rescaled and one.recipe.weight_decay]
    bare = [one for one in adaptive if not one.recipe.weight_decay or not one.recipe.rescaled]
    late = OUT.with_name("measured.csv").read_text(encoding="utf-8").count("unfinished")
    many = sum(one.recipe.images > MANY for one in known)
    return [
        f"The map stands on {trainings} trainings by {len(known)} recipes, {many} of them on more than {MANY} images; "
        f"{late} more took longer than two minutes and are left out. "
        f"The null is {np.mean(nulls):.3f} in the mean and {max(nulls):.2f} at most. Of {len(adaptive)} recipes with Adam, "
        f"AdamW or RMSprop, {len(decayed)} have weight decay in the loss, and {leaky(decayed)} of these gave half of their "
        f"images back or more; of the others {leaky(bare)} did.",
        "How well recipes are placed that the fit did not know (ten parts, each left out in turn):",
    ]


def off_centre(one: Measured) -> float:
    """How far a recipe of the plane is from the one that is varied."""
    centre = Recipe(**CENTRE)
    return abs(one.recipe.start - centre.start) + abs(one.recipe.decay - centre.decay)


def changed(recipe: Recipe) -> str:
    centre = Recipe(**CENTRE)
    names = [field.name for field in fields(recipe) if getattr(recipe, field.name) != getattr(centre, field.name)]
    spelt = {name: spell(getattr(recipe, name)) for name in names if name != "steps" or recipe.epochs is None}
    return ", ".join(f"{name} {value}" for name, value in spelt.items())


def summary(known: Sequence[Measured], left_out: Array) -> list[str]:
    """How well recipes are placed that were left out."""
    placed = placed_left_out(left_out, [one.shares for one in known])
    slope, offset = of_half(left_out, np.array([one.share for one in known]))
    lines = []
    for name, cells in DESIGNS.items():
        some = [
            (one.share, one.shares, *place, slope * odds + offset > 0, 1 / (1 + np.exp(-odds)))
            for one, place, odds in zip(known, placed, left_out, strict=True)
            if one.cell in cells
        ]
        if not some:
            continue
        half = sum(share >= HALF for share, *_ in some)
        right = sum((share >= HALF) == more for share, _, _, _, more, _ in some)
        trainings = [(low <= one <= high) for _, shares, low, high, _, _ in some for one in shares]
        error = np.mean([abs(share - told) for share, *_, told in some])
        lines.append(
            f"Recipes {name}: {len(some)}, of which {half} gave half of their images back or more. Left out of the fit, "
            f"{right} of them are put on the right side of half; {sum(trainings)} of {len(trainings)} trainings lie inside "
            f"their interval of 90 %, and the expected share is off by {error:.2f} in the mean."
        )
    return lines


def main() -> None:
    known = measured()
    named = [features(one.recipe) for one in known]
    names = list(named[0])
    X = np.array([[one[name] for name in names] for one in named])
    shares = np.array([one.share for one in known])
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale == 0] = 1
    X = (X - centre) / scale
    left_out = np.empty(len(X))
    for told, asked in KFold(FOLDS, shuffle=True, random_state=0).split(X):
        left_out[asked] = logistic(X[told], shares[told]).decision_function(X[asked])
    left_out = np.round(left_out, 3)
    apart = np.linalg.norm(X[:, None] - X[None], axis=2) + np.diag(np.full(len(X), np.inf))
    fitted = logistic(X, shares)
    found = {
        "names": names,
        "centre": np.round(centre, 6).tolist(),
        "scale": np.round(scale, 6).tolist(),
        "weights": np.round(fitted.coef_[0], 4).tolist(),
        "constant": round(float(fitted.intercept_[0]), 4),
        "left_out": left_out.tolist(),
        "half": of_half(left_out, shares),
        "away": round(float(np.quantile(apart.min(axis=1), 0.99)), 3),
    }
    OUT.write_text(json.dumps(found) + "\n", encoding="utf-8")
    PAGE.with_suffix(".svg").write_text(drawn(*plane(known)[:3]), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    said = tables(known, left_out)
    page = re.sub(r"(<!-- map:.*?-->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{said}\n{m[2]}", text, flags=re.DOTALL)
    PAGE.write_text(page, encoding="utf-8")
    print("\n".join(summary(known, left_out)))
    for name, weight in sorted(zip(names, fitted.coef_[0], strict=True), key=lambda one: -abs(one[1])):
        print(f"{weight:+.2f} {name}")


if __name__ == "__main__":
    main()
