"""A record with everything in it: a chain, the four verdicts, every kind of figure and loot, 100 pictures, 7 charts."""

import numpy as np

from divulge.contract import (
    Cost,
    Curve,
    Finding,
    HeatMap,
    Histogram,
    Holding,
    Hyperparameters,
    ImagePairs,
    Membership,
    Provenance,
    Record,
    Remedy,
    Scatter,
    Score,
    TaxonomyId,
    TrainingData,
    Verdict,
    Weights,
    taxonomies,
)

HASH = "9f86d081884c7d659a2feaa0c55ad015"
VERSIONS = {"divulge": "0.1.0", "numpy": "2.4.6", "python": "3.11.7"}


def full_record() -> Record:
    rng = np.random.default_rng(0)
    return Record(
        title="Digits behind an explanation service",
        holdings=(
            Holding("api", "gradients", "http://127.0.0.1:8080/v2/models/digits", HASH),
            Holding("ridge", "fitted", "ridge.skops", HASH),
            Holding("table", "training_data", "table.npz", HASH),
            Holding("people", "candidates", "people.npz", HASH),
            Holding("weights of api", "weights", "gradient-extraction", HASH, "gradient-extraction"),
            Holding("training data of api", "training_data", "kkt-reconstruction", HASH, "kkt-reconstruction"),
            Holding("hyperparameters of ridge", "hyperparameters", "hyperparameters", HASH, "hyperparameters"),
            Holding("membership of api", "membership", "span-membership", HASH, "span-membership"),
        ),
        findings=(
            extraction(rng),
            reconstruction(rng),
            hyperparameters(),
            membership(rng),
            Finding.not_applicable(
                "the network has two hidden layers; the proof needs one",
                provenance=origin("univariate", "UnivariateReconstruction", ["weights of api"], asset="training_data"),
            ),
            Finding.failed(
                "the budget of 600 seconds ran out; allow more time to go on",
                partial=True,
                cost=Cost(120_000, 600.2),
                provenance=origin("surrogate", "Surrogate", ["api"], asset="parameters"),
            ),
        ),
        unmet={"poisoning": "needs pipeline, which is not held"},
        broken={"somebody-elses": "ModuleNotFoundError: No module named 'somebody'"},
        seed=7,
        versions=VERSIONS,
    )


def origin(name: str, title: str, inputs: list[str], won: str = "", asset: str = "") -> Provenance:
    return Provenance(
        attack=name,
        title=title,
        asset=asset,
        paper="A. Author and B. Author 2022, arXiv:2206.07758",
        options={"count": 500, "tolerance": 1e-8, "margin": None, "layers": (784, 64, 1)},
        inputs=dict.fromkeys(inputs, HASH),
        won=won,
        seed=7,
        versions=VERSIONS,
    )


def extraction(rng: np.random.Generator) -> Finding[Weights]:
    steps = np.arange(20_000)
    return Finding.leak(
        Weights(((rng.normal(size=(64, 784)), np.zeros(64)), (rng.normal(size=(1, 64)), np.zeros(1)))),
        "Every weight of the network was read from its explanations, up to the order and sign of its units.",
        scores={
            "agreement": Score(100, 71.3, "a copy that always says the commonest class", "%", interval=(99.6, 100)),
            "weight error": Score(1.2e-10, 0.83, "weights drawn at random", better="lower", published=1e-6),
            "units found": Score(64, 0, "no unit at all", published=64),
        },
        figures=(
            Curve(
                "Error of the copy as queries are spent", "queries", "largest weight error",
                {"ours": (steps + 1, 0.8 * np.exp(-steps / 900) + 1e-10),
                 "predictions only": (steps + 1, 0.8 / np.sqrt(steps + 1))},
                log_x=True, log_y=True, marks={"one for each unit": 64.0},
            ),
            HeatMap(
                "Agreement by width and depth", "width", "depth", rng.uniform(0.5, 1, (4, 6)),
                np.array([16, 32, 64, 128, 256, 512]), np.array([1, 2, 3, 4]), "agreement",
            ),
        ),
        notes=("Units are told apart by the places where `relu` bends.",),
        remedy=("Answer with explanations rounded to two digits.", "Limit queries of one client to 10,000 a day."),
        taxonomy=(*taxonomies.NIST.ids("NISTAML.031"), TaxonomyId("Own list", "7", "A1")),
        cost=Cost(12_345, 192.4),
        provenance=origin("gradient-extraction", "GradientExtraction", ["api"], "weights of api"),
    )  # fmt: skip


def reconstruction(rng: np.random.Generator) -> Finding[TrainingData]:
    height, width = np.mgrid[0:28, 0:28] / 27
    truth = np.array([np.exp(-((height - a) ** 2 + (width - b) ** 2) / 0.05) for a, b in rng.uniform(0.2, 0.8, (50, 2))])
    found = np.clip(truth + rng.normal(0, 0.1, truth.shape), 0, 1)
    return Finding.leak(
        TrainingData(found.reshape(50, -1), np.arange(50) % 2, shape=(28, 28)),
        "50 training images were found in the weights.",
        scores={
            "images recovered": Score(50, 0.4, "the nearest image of another sample", interval=(44.1, 50.0)),
            "similarity": Score(0.61, 0.35, "the nearest image of another sample", published=0.4),
        },
        figures=(
            ImagePairs(
                "Training images and what was found", truth, found, "training image", "found in the weights",
                tuple(f"similarity {0.9 - 0.01 * place:.2f}" for place in range(50)),
            ),
            Histogram(
                "Similarity to the nearest training image", "similarity",
                {"found": rng.normal(0.6, 0.1, 500), "another sample": rng.normal(0.35, 0.08, 5000)},
            ),
            HeatMap(
                "Similarity of every pair", "training image", "found", rng.uniform(0, 1, (250, 300)),
                np.arange(300), np.arange(250), "similarity",
            ),
            Scatter(
                "Images near the margin come out best", "output of the network", "similarity",
                {"found": (rng.normal(0, 3, 500), rng.normal(0.6, 0.1, 500)),
                 "the mean image": (rng.normal(0, 3, 500), rng.normal(0.3, 0.1, 500))},
                marks={"decision boundary": 0.0},
            ),
        ),
        remedy=(Remedy("Train with differential privacy.", "0 of 50 images at noise 1 (docs/defences.md)."),),
        measured=("images recovered", "similarity"),
        taxonomy=taxonomies.RECONSTRUCTION,
        cost=Cost(0, 4_321),
        provenance=origin("kkt-reconstruction", "KktReconstruction", ["weights of api"], "training data of api"),
    )  # fmt: skip


def hyperparameters() -> Finding[Hyperparameters]:
    return Finding.leak(
        Hyperparameters({"alpha": 0.31, "gamma": 2.5e-4}, {"alpha": (0.3099, 0.3101)}),
        "alpha was computed from the coefficients and the data.",
        scores={"relative error": Score(float("nan"), float("inf"), "a guess", better="lower")},
        cost=Cost(0, 0.01),
        provenance=origin("hyperparameters", "HyperparameterStealing", ["ridge", "table"], "hyperparameters of ridge"),
    )


def membership(rng: np.random.Generator) -> Finding[Membership]:
    rate = np.linspace(0, 1, 400)
    return Finding(
        Verdict.NONE_FOUND,
        "Members are not told apart from strangers.",
        Membership(rng.uniform(size=300), rng.uniform(size=300) > 0.9),
        power="With 150 members and 150 others, a true positive rate of 4 % at 1 % would have been found 9 times in 10.",
        scores={
            "TPR at 1 % FPR": Score(1.3, 1.0, "coin flips at that rate", "%", interval=(0.1, 4.7)),
            "AUC": Score(0.497, 0.5, "coin flips"),
        },
        figures=(
            Curve(
                "Who is called a member", "false positive rate", "true positive rate",
                {"attack": (rate, rate**0.97), "chance": (rate, rate)}, log_x=True, log_y=True,
                bands={"attack": (rate, rate**1.1, rate**0.8)},
            ),
            Histogram("Scores of the candidates", "score", {"all": rng.normal(size=3000)}),
        ),
        cost=Cost(300, 1.5),
        provenance=origin("span-membership", "SpanMembership", ["api", "people"], "membership of api"),
    )  # fmt: skip
