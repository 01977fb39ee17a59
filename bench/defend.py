"""What `divulge audit --defend` prints for real models: before and after, leak by leak, with the cost to users.

    python bench/defend.py --seeds 11 12

Four victims a seed, drawn by it: a network that names digits, asked for values and gradients; one that remembers fifty
digits, asked, and released as weights; a ridge regression of the diabetes data, released. Nothing here is tuned: the
defences are those of docs/defences.md, and a seed is used once. Verdict, severity and headline score of what leaked without
a defence, then behind each; accuracy, or R², is on points that the models were not trained on.
"""

import argparse

import numpy as np

from divulge import Candidates, Fitted, Gradients, Hyperparameters, TrainingData, Weights, audit, datasets
from divulge.contract import Budget
from divulge.report import trials
from divulge.victims import classical, classifiers, ordinary

ASKED = ["rounding=3", "noise=0.01", "absolute", "smoothgrad=0.1", "query-limit=50"]
RELEASED = ["rounding=2", "noise=0.1"]
SECONDS = 240  # an audit with its trials; what it ends is printed as not finished


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, nargs="+", required=True)
    arguments.add_argument("--victims", nargs="+", default=list(VICTIMS))
    arguments.add_argument("--seconds", type=float, default=SECONDS)
    asked = arguments.parse_args()
    print(
        "| seed | victim | leak | without | defence | with | for the users, without → with |\n|---|---|---|---|---|---|---|"
    )
    for seed in asked.seeds:
        for name in asked.victims:
            held, truth, attacks, defend = VICTIMS[name](np.random.default_rng(seed))
            budget = Budget(seconds=asked.seconds)
            found = audit(held, truth, attacks=attacks, defend=defend, seed=seed, budget=budget)
            for table in trials.tables(found.record):
                printed(seed, name, table)
            best = trials.best(found.record)
            print(f"| {seed} | {name} | **helps most: {best.defence if best else 'none'}** | | | | |", flush=True)


def printed(seed, name, table):
    kept = "; ".join(f"{one.name} {one.without} → {one.behind}" for one in table.kept) or "not measured"
    for row in table.rows:
        if row.before.leak or row.after.leak:
            after = "not finished" if table.partial else row.after.words
            what = f"{row.attack} on {' and '.join(row.inputs)}"
            print(f"| {seed} | {name} | {what} | {row.before.words} | {table.defence} | {after} | {kept} |", flush=True)


def classifier(rng):
    """784-24-10 on the embedded sample, as people train one."""
    digits = datasets.load("mnist")
    made = classifiers.train(digits.X, digits.y, rng, architecture="two-layer", shape=digits.shape, width=24)
    network = Weights(tuple((W.astype(float), b.astype(float)) for W, b in made.weights().layers))
    mixed = rng.permutation(len(digits.X_test))
    theirs, ours = mixed[:600], mixed[600:]
    held = {"api": Gradients.of(network), "their images": Candidates(digits.X_test[theirs])}
    truth = {"weights": network, "candidates": Candidates(digits.X_test[ours], digits.y_test[ours])}
    return held, truth, ["gradient-extraction", "value-extraction", "surrogate"], ASKED


def memoriser(rng):
    """784-100-100-10 on fifty digits, with weight decay until its start has decayed."""
    digits = datasets.load("mnist", samples=50, seed=int(rng.integers(2**31)))
    recipe = {"lr": 0.1, "momentum": 0.9, "weight_decay": 6e-3, "epochs": 1500}
    trained = ordinary.train(digits.X, digits.y, rng, hidden=(100, 100), **recipe)
    seen = TrainingData(digits.X, digits.y, shape=digits.shape)
    truth = {"training_data": seen, "candidates": Candidates(digits.X_test, digits.y_test)}
    return Weights(tuple(trained.layers), shape=digits.shape), truth


def asked_memoriser(rng):
    network, truth = memoriser(rng)
    return {"api": Gradients.of(network)}, truth, ["answer-directions", "span-reconstruction"], ASKED


def released_memoriser(rng):
    network, truth = memoriser(rng)
    return {"network": network}, truth, ["span-reconstruction"], RELEASED


def ridge(rng):
    """The diabetes data, 300 rows of it; R² is on the others."""
    table = datasets.load("diabetes", standardised=True)
    here, elsewhere = np.split(rng.permutation(len(table.X)), [300])
    model = classical.train("ridge", table.X[here], table.y[here], alpha=float(10 ** rng.uniform(-2, 0.5)))
    held = {"model": Fitted.of(model), "data": TrainingData(table.X[here], table.y[here])}
    others = Candidates(table.X[elsewhere], table.y[elsewhere])
    return held, {"hyperparameters": Hyperparameters.of(model), "candidates": others}, ["hyperparameters"], RELEASED


VICTIMS = {
    "classifier, asked": classifier,
    "memoriser, asked": asked_memoriser,
    "memoriser, released": released_memoriser,
    "ridge, released": ridge,
}

if __name__ == "__main__":
    main()
