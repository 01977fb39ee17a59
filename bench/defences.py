"""What each defence of an explanation API costs the attacker, and what it leaves of the explanations.

    python bench/defences.py [--attacks NAME ...] [--victims ten-classes scalar] [--units 32] [--seconds 60]

Two networks are trained on the embedded MNIST sample: ten classes with biases, and odd against even with one output and no
biases, which the published algorithm asks for. Every attack that is installed runs on every defended API with its own
options; the surrogates have 600 test images and ask about 300. A cell: verdict · queries · at the other test images, the
share to which copy and model give the same label · the error of the copy's outputs relative to their spread. Cosine:
between what is explained and the gradient, mean over test images.
"""

import argparse

import numpy as np
import torch

from divulge import Candidates, Gradients, Predictions, Weights, datasets, registry
from divulge.contract import Budget, Context
from divulge.defences import defended
from divulge.errors import BadInput, DivulgeError

ATTACKS = {
    "gradient-extraction": ("gradient-extraction", {}),
    "value-extraction": ("value-extraction", {}),
    "published-extraction": ("published-extraction", {}),
    "surrogate": ("surrogate", {}),
    "surrogate, values": ("surrogate", {"use": "values"}),
}
CANDIDATES = 600  # test images that the attacker has; the others measure the copy
DEFENCES = {
    "none": [],
    "6 digits": [("rounding", {"digits": 6})],
    "3 digits": [("rounding", {"digits": 3})],
    "gradients to 3 digits": [("rounding", {"digits": 3, "of": "gradients"})],
    "values to 3 digits": [("rounding", {"digits": 3, "of": "values"})],
    "1 digit": [("rounding", {"digits": 1})],
    "noise 1 %": [("noise", {"sigma": 0.01})],
    "gradients with noise 1 %": [("noise", {"sigma": 0.01, "of": "gradients"})],
    "gradients with noise 100 %": [("noise", {"sigma": 1.0, "of": "gradients"})],
    "absolute": [("absolute", {})],
    "top-class": [("top-class", {})],
    "smoothgrad 0.1": [("smoothgrad", {"sigma": 0.1})],
    "smoothgrad 1": [("smoothgrad", {"sigma": 1.0})],
    "limit 50": [("query-limit", {"points": 50})],
    "limit 1000": [("query-limit", {"points": 1000})],
}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--attacks", nargs="+", default=list(ATTACKS))
    arguments.add_argument("--victims", nargs="+", default=["ten-classes", "scalar"])
    arguments.add_argument("--defences", nargs="+", default=list(DEFENCES))
    arguments.add_argument("--units", type=int, default=32)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--queries", type=int, default=200_000)
    asked = arguments.parse_args()
    installed = registry.attacks()
    names = [name for name in asked.attacks if ATTACKS[name][0] in installed]
    print(f"not installed: {', '.join(name for name in asked.attacks if name not in names) or 'none'}")
    print(f"each attack has {asked.seconds:g} seconds and {asked.queries} queries\n")
    data = datasets.load("mnist")
    for victim in asked.victims:
        network, said = trained(data, asked.units, scalar=victim == "scalar")
        print(f"## {said}\n\n| defence | cosine | labels kept | {' | '.join(names)} |\n{'|---' * (3 + len(names))}|")
        for label in asked.defences:
            row = [label, *kept(network, data.X_test, label)]
            row += [outcome(name, installed, network, label, data, asked) for name in names]
            print(f"| {' | '.join(row)} |", flush=True)
        print()


def trained(data, units, scalar):
    """784-units-10 with biases, or 784-units-1 without; full-batch Adam, in double precision."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(784, units, bias=not scalar), torch.nn.ReLU(), torch.nn.Linear(units, 1 if scalar else 10)]
    if scalar:
        layers[2] = torch.nn.Linear(units, 1, bias=False)
    module = torch.nn.Sequential(*layers).double()
    X, y = torch.tensor(data.X), torch.tensor(data.y)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(200):
        optimiser.zero_grad()
        outputs = module(X)
        if scalar:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], (y % 2).double())
        else:
            loss = torch.nn.functional.cross_entropy(outputs, y)
        loss.backward()
        optimiser.step()
    first, last = layers[0], layers[2]
    biases = [np.zeros(len(one.weight)) if one.bias is None else one.bias.detach().numpy() for one in (first, last)]
    network = Weights(tuple((one.weight.detach().numpy(), b) for one, b in zip((first, last), biases, strict=True)))
    truth = data.y_test % 2 if scalar else data.y_test
    accuracy = np.mean(labels(network.predict(data.X_test)) == truth)
    common = np.bincount(labels(network.predict(data.X_test))).max() / len(truth)
    shape = f"784-{units}-{1 if scalar else 10}{', no biases' if scalar else ''}"
    return network, f"{shape}: {len(X)} images, test accuracy {accuracy:.3f}; always the commonest label: same {common:.2f}"


def guarded(network, label):
    api = Gradients.of(network)
    for name, settings in DEFENCES[label]:
        api = defended(api, name, **settings)
    return api


def labels(outputs):
    return outputs.argmax(axis=1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).astype(int)


def kept(network, images, label):
    """What a customer still gets: likeness of the explanation of the top class, and share of labels unchanged."""
    images = images[:40]
    try:
        told = [guarded(network, label), defended(guarded(network, "none"), "rounding", digits=15)]
    except BadInput:
        return ["–", "–"]
    explained = []
    for api in told:
        gradients = api.gradient(images)
        if gradients.ndim == 3:
            gradients = gradients[np.arange(len(images)), network.predict(images).argmax(axis=1)]
        explained.append(gradients)
    cosines = np.sum(explained[0] * explained[1], axis=1) / np.prod(
        [np.linalg.norm(one, axis=1) for one in explained], axis=0
    )
    fresh = guarded(network, label)
    same = np.mean(labels(fresh.value(images)) == labels(network.predict(images)))
    return [f"{cosines.mean():.3f}", f"{same:.2f}"]


def outcome(name, installed, network, label, data, asked):
    kind, options = installed[ATTACKS[name][0]], dict(ATTACKS[name][1])
    if name == "published-extraction":
        options["units"] = asked.units
    limit = next((settings["points"] for defence, settings in DEFENCES[label] if defence == "query-limit"), None)
    if limit is not None and "surrogate" in name:  # its owner knows the limit, and keeps to it
        options["queries"] = min(100, limit - 10)
        options["holdout"] = min(200, limit - options["queries"])
    try:
        api = guarded(network, label)
    except BadInput:
        return "–"
    made = {
        Gradients: api,
        Predictions: api,
        Candidates: Candidates(data.X_test[:CANDIDATES]),
    }
    context = Context(0, budget=Budget(seconds=asked.seconds, queries=asked.queries))
    try:
        finding = kind(**options)(*(made[need] for need in kind.needs), context=context)
    except DivulgeError as error:
        return f"error: {error}"
    said = f"{finding.verdict.value} · {finding.cost.points}"
    if finding.loot is None:
        return said
    true, copy = (one.predict(data.X_test[CANDIDATES:]) for one in (network, finding.loot))
    if copy.shape != true.shape:
        return f"{said} · a copy of {copy.shape[1]} outputs"
    outputs = centred(true), centred(copy)
    error = np.linalg.norm(outputs[1] - outputs[0]) / np.linalg.norm(outputs[0])
    return f"{said} · {np.mean(labels(true) == labels(copy)):.3f} · {error:.0e}"


def centred(outputs):
    """Outputs less their mean over images; of several, also less what all classes share, which no label depends on."""
    outputs = outputs - outputs.mean(axis=0)
    return outputs - outputs.mean(axis=1, keepdims=True) if outputs.shape[1] > 1 else outputs


if __name__ == "__main__":
    main()
