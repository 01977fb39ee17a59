"""From the answers of a linear service to its penalty: answers in double and in single precision, on raw and scaled tables.

`python bench/chain.py --first 13000` is the run that is reported; nothing is tuned on those draws. `--wrong` gives the
attacker other rows of the table than the model was trained on.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter

import numpy as np
from tables import draw

from divulge import Fitted, Predictions, TrainingData, audit
from divulge.attacks.hyperparameters.identification import same_learner

warnings.filterwarnings("ignore")
CHAIN = ("linear-extraction", "algorithm", "hyperparameters")


def service(model, width: int, single: bool) -> Predictions:
    answer = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return Predictions((lambda X: answer(X).astype(np.float32)) if single else answer, width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=13_000)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--wrong", action="store_true")
    given = parser.parse_args()
    for single in (False, True):
        counts: Counter[str] = Counter()
        for seed in range(given.first, given.first + given.count):
            case = draw(8 * seed)  # tables in full
            X, y = case.X, case.y
            if given.wrong:
                rows = np.random.default_rng(seed).permutation(len(X))[: 2 * len(X) // 3]
                X, y = X[rows], y[rows]
            done = audit([service(case.model, X.shape[1], single), TrainingData(X, y)], attacks=CHAIN)
            found = {finding.provenance.attack: finding for finding in done.findings}
            reached = [name for name in CHAIN if name in found and found[name].loot is not None]
            said = f"ends after {reached[-1]}" if reached else "nothing"
            if len(reached) == len(CHAIN):
                loot = found["hyperparameters"].loot
                unit = next(iter(loot.values))
                low, high = loot.intervals[unit]
                off, half = abs(loot.values[unit] / case.truth - 1), (high - low) / 2 / loot.values[unit]
                said = "covers" if low <= case.truth <= high else "MISSES"
                if not same_learner(found["algorithm"].loot, Fitted.of(case.model)):
                    said = "another learner"
                counts[said] += 1
                said += f", error {off:.1e}, half-width {half:.1e}, {found['algorithm'].loot.learner}"
            else:
                counts[said] += 1
            print(f"{seed} {case.kind}{', float32' if single else ''}: {said}", flush=True)
        print(dict(counts), flush=True)


if __name__ == "__main__":
    main()
