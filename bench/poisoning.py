"""Seventeen poisoning points against a logistic regression trained to the end, beside secml's, from the same starts.

    python bench/poisoning.py                                  ours alone
    python bench/poisoning.py --secml-python PATH              both; PATH is a Python that has secml
    python bench/poisoning.py --secml-python PATH --fast       secml with larger steps that end sooner

secml is old; on Python 3.11 this makes an interpreter that has it:

    python -m venv peer
    peer/bin/pip install --no-deps secml==0.13.post1
    peer/bin/pip install numpy==1.23.5 scipy==1.9.3 scikit-learn==1.2.2 joblib==1.3.2 matplotlib==3.7.5
    peer/bin/pip install pillow requests python-dateutil

MNIST, 0 or 8, 512 training and 171 validation points, C = 1, box 0 to 1, one thread, processor seconds. Both attacks' points
are judged by scikit-learn's logistic regression trained on them: loss on the validation points, which both maximise, and
error on test points. Of nine settings tried on one split, secml's strongest is the one used here; `--fast` is its quickest
that comes near. DIVULGE_DATA gives the 1,954 test digits of the full set; without it the embedded sample has 400.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

POINTS = 17
STRONG = {"eta": 0.25, "eps": 1e-6, "max_iter": 100}
FAST = {"eta": 0.5, "eps": 1e-4, "max_iter": 100}


def problem(split):
    from divulge import datasets

    full = bool(os.environ.get("DIVULGE_DATA"))
    digits = datasets.load("mnist-0-8", samples=683, seed=1000 + split, full=full)
    X, y = digits.X, (digits.y > 0).astype(int)
    rows = np.random.default_rng(split).choice(171, POINTS, replace=False)
    return {
        "X": X[:512], "y": y[:512], "X_val": X[512:], "y_val": y[512:],
        "starts": X[512:][rows], "start_labels": 1 - y[512:][rows],
        "X_test": digits.X_test, "y_test": (digits.y_test > 0).astype(int),
    }  # fmt: skip


def ours(data, iterations):
    from divulge.solvers.bilevel.ascent import Starts, ascend
    from divulge.solvers.bilevel.implicit import Converged
    from divulge.solvers.bilevel.inner import RISKS, Shared

    start = time.process_time()
    train = Converged(
        Shared(data["X"], data["y"][None] * 1.0, data["X_val"], data["y_val"][None] * 1.0, RISKS["logistic"]), tolerance=1e-6
    )
    begun = Starts(data["starts"][None], data["start_labels"][None, None] * 1.0, np.arange(POINTS)[None])
    found = ascend(
        train, lambda count: begun, np.zeros(1), lambda points, targets: np.clip(points, 0, 1),
        starts=0, iterations=iterations, step=0.07 * 28, also=begun,
    )  # fmt: skip
    return found.points, time.process_time() - start


def secml(data, python, fast):
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "given.npz", Path(folder) / "answer.npz"
        np.savez(given, **data)
        words = [python, "-W", "ignore", __file__, "--secml-worker", str(given), str(answer), *(["--fast"] if fast else [])]
        heard = subprocess.run(words, capture_output=True, text=True, check=False)
        if heard.returncode:
            sys.exit(f"{heard.stderr[-500:]}\nsecml did not run; the top of this file says how to install it.")
        with np.load(answer) as made:
            return made["points"], float(made["seconds"])


def secml_worker(given, answer, fast):
    home = tempfile.TemporaryDirectory()  # it makes folders when imported
    os.environ.update(SECML_HOME_DIR=home.name, SECML_PYTORCH_DIR=home.name, MPLBACKEND="agg")
    import scipy.linalg

    scipy.linalg.pinv2 = scipy.linalg.pinv  # its old name, asked for where a Hessian is singular
    from secml.adv.attacks.poisoning import CAttackPoisoningLogisticRegression
    from secml.array import CArray
    from secml.data import CDataset
    from secml.ml.classifiers import CClassifierLogistic

    data = np.load(given)
    train, validation, begun = (
        CDataset(CArray(data[points].astype(float)), CArray(data[labels].astype(int)))
        for points, labels in (("X", "y"), ("X_val", "y_val"), ("starts", "start_labels"))
    )
    model = CClassifierLogistic(C=1.0, random_state=0)
    start = time.process_time()
    model.fit(train.X, train.Y)
    attack = CAttackPoisoningLogisticRegression(
        model, training_data=train, val=validation, distance="l1", lb=0, ub=1, solver_type="pgd",
        solver_params=FAST if fast else STRONG, random_seed=0,
    )  # fmt: skip
    attack.n_points = POINTS
    made = attack.run(validation.X, validation.Y, ds_init=begun, max_iter=1)[2]
    np.savez(answer, points=made.X.tondarray(), seconds=time.process_time() - start)


def judged(data, points):
    """Validation loss and test error of scikit-learn's model with these points."""
    from sklearn.linear_model import LogisticRegression

    X, y = np.vstack([data["X"], points]), np.append(data["y"], data["start_labels"][: len(points)])
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, y)
    chance = model.predict_proba(data["X_val"])[np.arange(len(data["y_val"])), data["y_val"]]
    return -np.log(chance).mean(), 1 - model.score(data["X_test"], data["y_test"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--secml-python", default="", metavar="PATH")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--secml-worker", nargs=2, default=(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.secml_worker:
        secml_worker(*given.secml_worker, given.fast)
        return
    print("| split | points | validation loss | test error | processor seconds | secml / ours |\n|---|---|---|---|---|---|")
    for split in range(given.splits):
        data = problem(split)
        rows = {"none": (data["starts"][:0], None), "starts, not moved": (data["starts"], None)}
        rows["ours"] = ours(data, given.iterations)
        if given.secml_python:
            rows["secml, fast" if given.fast else "secml"] = secml(data, given.secml_python, given.fast)
        for name, (points, seconds) in rows.items():
            loss, error = judged(data, points)
            ratio = f"{seconds / rows['ours'][1]:.0f}" if name.startswith("secml") else ""
            print(f"| {split} | {name} | {loss:.4f} | {100 * error:.1f} % | {seconds or 0:.2f} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
