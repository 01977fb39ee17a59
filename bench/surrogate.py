"""Accuracy and agreement of a copy against the number of queries: gradients, values alone and SmoothGrad, repeated.

Every row trains the same victims anew (`--repeats`, from `--first`) and copies them from the same queries. Prints a table,
mean and range over the repeats, and with `--out FOLDER` writes it as CSV and the curves as SVG and HTML.
"""

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import vl_convert

from divulge import Candidates, Context, datasets, victims
from divulge.attacks import Surrogate
from divulge.baselines import BlindSurrogate

ARMS = {
    "gradients": ("gradients", "gradients"),
    "values": ("gradients", "values"),
    "values-as-long": ("gradients", "values"),
    "smoothgrad": ("smoothgrad", "gradients"),
}
LONGER = 5
"Steps with values alone that take the time of one with gradients: 6 and 31 s for 100 of VGG-11, 10 and 50 s of ResNet-18."
SCORES = ("accuracy of the copy", "agreement on test points")


def main():
    options = parsed()
    loaded = datasets.load(options.dataset, full=options.full)
    test = Candidates(loaded.X_test, loaded.y_test)
    rows = []
    for seed in range(options.first, options.first + options.repeats):
        settings = {"epochs": options.epochs, "noise": options.noise, "architecture": options.model}
        if options.victim_width:
            settings["width"] = options.victim_width
        rng = np.random.default_rng(seed)
        made = victims.make("classifier", loaded.X, loaded.y, rng, test=test, shape=loaded.shape, **settings)
        accuracy = float(np.mean(made.truth["copy"].predict(test.X).argmax(1) == test.y))
        print(f"# victim {seed}: accuracy {accuracy:.4f}", flush=True)
        for queries in options.queries:
            for arm in options.arms:
                found = copied(options, made, arm, queries, seed)
                scores = [found.scores[name].value if name in found.scores else np.nan for name in SCORES]
                null = found.scores[SCORES[1]].null if SCORES[1] in found.scores else np.nan
                rows.append((arm, queries, seed, *scores, null, found.cost.seconds, accuracy))
                line = f"# {arm}, {queries} queries, repeat {seed}: accuracy {scores[0]:.4f}, agreement {scores[1]:.4f}"
                print(f"{line} (most common class {null:.3f}), {found.cost.seconds:.0f} s", flush=True)
    print(table(rows))
    if options.out:
        write(options, rows)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--full", action="store_true", help="all of the data, from DIVULGE_DATA or by download")
    parser.add_argument("--model", default="convolutional", help="the victim's architecture")
    parser.add_argument("--copy", default=None, help="the copy's; the victim's unless told otherwise")
    parser.add_argument("--width", type=int, default=None, help="of the copy")
    parser.add_argument("--victim-width", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["gradients", "values", "smoothgrad"])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--pick", default="spread")
    parser.add_argument("--noise", type=float, default=1.0, help="of SmoothGrad, in standard deviations of the data")
    parser.add_argument("--blind", action="store_true", help="Gaussian queries")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def copied(options, made, arm, queries, seed):
    kind, use = ARMS[arm]
    victim = replace(made, served={**made.served, "kind": kind}).opened()
    steps = options.steps * (LONGER if arm == "values-as-long" else 1)
    chosen = {"queries": queries, "use": use, "steps": steps, "width": options.width}
    chosen["architecture"] = options.copy or options.model
    if options.blind:
        attack = BlindSurrogate(shape=made.served["network"].shape, **chosen)
        return attack(victim.held["api"], truth=victim.truth, context=Context(seed))
    return Surrogate(pick=options.pick, **chosen)(*victim.held.values(), truth=victim.truth, context=Context(seed))


def table(rows):
    lines = ["| learned from | queries | accuracy, mean (range) | agreement, mean (range) | null |", "|---|---|---|---|---|"]
    for arm, queries in dict.fromkeys(row[:2] for row in rows):
        numbers = np.array([row[3:5] for row in rows if row[:2] == (arm, queries)])
        null = np.nanmean([row[5] for row in rows if row[:2] == (arm, queries)])
        numbers = numbers[np.isfinite(numbers).all(1)]  # a copy no better than guessing is kept by nobody
        cells = [f"{one.mean():.3f} ({one.min():.3f} to {one.max():.3f})" for one in numbers.T if len(one)]
        cells = cells or ["no better than the most common class"] * 2
        lines.append(f"| {arm} | {queries} | {' | '.join(cells)} | {null:.3f} |")
    return "\n".join(lines)


def write(options, rows):
    options.out.mkdir(parents=True, exist_ok=True)
    name = "-".join([options.dataset, options.model, options.copy or options.model] + ["gaussian"] * options.blind)
    with (options.out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("learned from", "queries", "seed", *SCORES, "null", "seconds", "accuracy of the victim"))
        writer.writerows(rows)
    for column, score in enumerate(SCORES, 3):
        chart = drawn([{"learned from": row[0], "queries": row[1], "score": row[column]} for row in rows], name, score)
        path = options.out / f"{name}-{score.split()[0]}"
        Path(f"{path}.svg").write_text(vl_convert.vegalite_to_svg(chart))
        Path(f"{path}.html").write_text(vl_convert.vegalite_to_html(chart, bundle=True))


def drawn(points, name, score):
    """Means as lines, with the range over the repeats around them."""
    height = {"field": "score", "type": "quantitative", "title": score, "scale": {"zero": False}}
    band = {"y": {**height, "aggregate": "min"}, "y2": {"field": "score", "aggregate": "max"}}
    return {
        "title": name,
        "width": 420,
        "height": 280,
        "data": {"values": points},
        "encoding": {
            "x": {"field": "queries", "type": "quantitative", "scale": {"type": "log"}},
            "color": {"field": "learned from", "type": "nominal", "sort": None},
        },
        "layer": [
            {"mark": {"type": "area", "opacity": 0.2}, "encoding": band},
            {"mark": {"type": "line", "point": True}, "encoding": {"y": {**height, "aggregate": "mean"}}},
        ],
    }


if __name__ == "__main__":
    main()
