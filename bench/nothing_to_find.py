"""Networks from which no training image can honestly be had: does anybody claim one, from weights or from answers?

    python bench/nothing_to_find.py                    every kind, seeds 100 to 103; an hour on one core
    python bench/nothing_to_find.py --quick            one seed, and the service as it is
    python bench/nothing_to_find.py --only decay --ways answers --seeds 4

Each network is audited as its weights and as a service that explains every output: as it is, with answers of 3 digits,
and with noise of 1 %; that these are gradients is told. A claim is right where its NCC with a training image is above 0.9; a
leak is false where fewer than half of its claims are. Of some kinds images can be had after all (`may leak`): claims are
counted alike there. Nothing may be tuned on the seeds that are reported: 0 to 3 are for that. Photographs and thousands of
images need DIVULGE_DATA.
"""

import argparse
import pickle
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from nothing_zoo import KINDS, MAY_LEAK

from divulge import Context, Gradients
from divulge.attacks import SpanReconstruction
from divulge.attacks.directions.answers import AnswerDirections
from divulge.attacks.reconstruction import span as span_attack
from divulge.defences import defended
from divulge.errors import NotApplicable
from divulge.explanations import Explanation
from divulge.solvers.shared import similarity

FIRST_SEED = 100
RIGHT = 0.9
DEFENCES = {"answers": None, "3 digits": ("rounding", {"digits": 3}), "noise": ("noise", {"sigma": 0.01})}
WAYS = ("weights", *DEFENCES)


def drawn(name, seed, folder):
    """A network of this kind and what it was trained on, from the folder where it was made before."""
    kept = None if folder is None else folder / f"{name} {seed}.pkl"
    if kept is not None and kept.exists():
        return pickle.loads(kept.read_bytes())
    made = KINDS[name](seed)
    if kept is not None:
        kept.write_bytes(pickle.dumps(made))
    return made


def audited(held, way, seed):
    """What comes out of one network, looked at in one way: the last finding, or why there is none."""
    try:
        if way == "weights":
            return SpanReconstruction()(held, context=Context(seed))
        service = replace(Gradients.of(held), mean=held.mean, shape=held.shape)
        if DEFENCES[way]:
            name, settings = DEFENCES[way]
            service = defended(service, name, seed=seed, **settings)
        outputs = len(held.layers[-1][1])
        service = replace(service, explanation=Explanation("gradient", of="each output" if outputs > 1 else "only output"))
        found = AnswerDirections()(service, context=Context(seed))
        return found if found.loot is None else SpanReconstruction()(found.loot, context=Context(seed))
    except NotApplicable as error:
        return error


def counted(finding, X):
    """Claims, those that are right, and those that are expected to be."""
    if said(finding) != "leak":
        return 0, 0, 0.0
    claimed = finding.loot.X
    right = 0 if X is None else int(np.sum(similarity.ncc(claimed, X.astype(claimed.dtype)).max(axis=1) > RIGHT))
    return len(claimed), right, float(finding.evidence.expected)


def said(finding):
    return finding.verdict.value if hasattr(finding, "verdict") else "not applicable"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    parser.add_argument("--only", nargs="+", default=[""], help="kinds whose name holds one of these words")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--keep", type=Path, help="folder in which networks are found again")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    span_attack._Control.__call__ = lambda self, rng: np.zeros(2)  # tells power, not claims, and takes most of the time
    seeds, ways = (1, ("answers",)) if given.quick else (given.seeds, given.ways)
    totals = {}
    print("| kind | way | verdicts | claimed | right | expected | s |\n|---|---|---|---|---|---|---|")
    for name in KINDS:
        if not any(word in name for word in given.only):
            continue
        networks = [drawn(name, seed, given.keep) for seed in range(given.first, given.first + seeds)]
        for way in ways:
            start = time.perf_counter()
            found = [audited(held, way, given.first + place) for place, (held, _) in enumerate(networks)]
            counts = [counted(one, X) for one, (_, X) in zip(found, networks, strict=True)]
            spent = (time.perf_counter() - start) / len(networks)
            many, right, expected = (sum(one[place] for one in counts) for place in range(3))
            verdicts = [said(one) for one in found]
            words = ", ".join(f"{verdicts.count(one)} {one}" for one in sorted(set(verdicts)))
            print(f"| {name} | {way} | {words} | {many} | {right} | {expected:.1f} | {spent:.1f} |", flush=True)
            total = totals.setdefault((name in MAY_LEAK, way), [0, 0, 0, 0, 0])
            leaks = [one for one in counts if one[0]]
            false = sum(2 * one[1] < one[0] for one in leaks)
            for place, more in enumerate((len(counts), len(leaks), false, many, right)):
                total[place] += more
    for (may, way), (count, leaks, false, many, right) in sorted(totals.items()):
        kind = "may leak" if may else "nothing to find"
        wrong = f"{many - right} of {many} claims wrong"
        print(f"\n{kind}, {way}: {count} networks, {leaks} leaks, {false} of them false; {wrong}.")


if __name__ == "__main__":
    main()
