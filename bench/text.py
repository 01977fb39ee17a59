"""C of a logistic regression on sparse text: its error, its interval, and the memory the attack takes beside the data's.

    python bench/text.py --seed 1

Texts are made, not fetched: words by Zipf's law, and a class that some of them favour. Memory is the largest that Python and
numpy held at once during the attack, beyond what they held before it.
"""

import argparse
import time
import tracemalloc

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from divulge import Fitted, Hyperparameters, TrainingData
from divulge.attacks import HyperparameterStealing
from divulge.contract import Context

LENGTH = 150  # words of a text in the mean, as a short article has


def texts(rng, documents, columns):
    """Counts of words (documents, columns) and labels: word k comes with probability ∝ 1 / (k + 1), tilted by class."""
    labels = rng.integers(0, 2, documents)
    tilt = rng.normal(0, 0.3, columns)
    ends = [np.cumsum(np.exp(sign * tilt) / np.arange(1, columns + 1)) for sign in (-1, 1)]
    lengths = 1 + rng.poisson(LENGTH, documents)
    rows = np.repeat(np.arange(documents), lengths)
    drawn = rng.random(len(rows))
    words = np.empty(len(rows), dtype=np.int64)
    for label, end in enumerate(ends):
        here = labels[rows] == label
        words[here] = np.searchsorted(end / end[-1], drawn[here], side="right")
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, np.minimum(words, columns - 1))), shape=(documents, columns))
    counts.sum_duplicates()
    return counts, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=50_000)
    parser.add_argument("--trainings", type=int, default=HyperparameterStealing().trainings)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    counts, labels = texts(rng, asked.documents, asked.columns)
    X = TfidfTransformer().fit_transform(counts)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    secret = float(10 ** rng.uniform(-1, 1))
    print(f"{X.shape[0]:,} texts, {X.shape[1]:,} columns, {X.nnz:,} entries, {size / 2**20:.1f} MB", flush=True)
    print("| tolerance | C | found | relative error | interval | fits | memory / data's | attack / fit | verdict |")
    print("|---|---|---|---|---|---|---|---|---|")
    for title, C, settings in (
        ("default", 1.0, {}),
        ("default", secret, {}),
        ("1e-8", secret, {"tol": 1e-8, "max_iter": 5000}),
    ):
        start = time.perf_counter()
        model = LogisticRegression(C=C, **settings).fit(X, labels)
        fit = time.perf_counter() - start
        held, truth = (Fitted.of(model), TrainingData(X, labels)), Hyperparameters.of(model)
        fits = []
        context = Context(progress=lambda done, total, fits=fits: fits.append(done))
        tracemalloc.start()
        start = time.perf_counter()
        finding = HyperparameterStealing(trainings=asked.trainings)(*held, context=context)
        seconds = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        found = "–", "–", "–"
        if finding.loot is not None:
            value, (low, high) = finding.loot.values["C"], finding.loot.intervals["C"]
            inside = "holds" if low <= truth.values["C"] <= high else "misses"
            found = f"{value:.9g}", f"{abs(value / C - 1):.1e}", f"{low:.9g} to {high:.9g}, {inside}"
        figures = f"{len(fits)} | {peak / size:.2f} | {seconds / fit:.1f} | {finding.verdict}"
        print(f"| {title} | {C:.9g} | {' | '.join(found)} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
