"""How often the truth shows a leak where there is none: what knows nothing of the training data, judged as findings are.

Images: pictures that the network never saw stand in the place of reconstructions, or are claimed outright; training images
and non-members also come in copies, blurred and moved. Members: scores that know nothing, with and without ties. One input:
candidates drawn like the training points. Every leak is a false one; of wrong claims all should have failed. The rules
promise less than one in a thousand draws each.

    python bench/shown_by_truth.py --first 0
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from divulge import datasets
from divulge.arrays import Array
from divulge.attacks.membership import scoring as membership
from divulge.attacks.reconstruction import scoring as images
from divulge.attacks.reconstruction.claims import Claims
from divulge.attacks.univariate import scoring as univariate
from divulge.contract import Candidates, Finding, Membership, TrainingData, Truth, Verdict, Weights
from divulge.contract.access import Access

SIDE = 28
Draw = Callable[[np.random.Generator], Array]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--count", type=int, default=100, help="draws of images, each kind; fifty times as many of the others"
    )
    chosen = parser.parse_args()
    for name in ("mnist", "fashion-mnist"):
        loaded = datasets.load(name, samples=3000, seed=chosen.first)
        X = np.asarray(loaded.X, np.float32).reshape(len(loaded.X), -1)
        for copies, how, both in kinds():
            said = f"{name}, {copies} of each, {how or 'as they are'}{', non-members too' if both else ''}"
            tally(said, chosen, lambda rng, c=copies, h=how, b=both, X=X: handed_over(rng, X, c, h, b))
        for members, others in ((100, 1000), (1500, 1000), (100, 0), (1500, 0)):
            said = f"{name}, 30 wrong claims, {members} training images, {others} non-members"
            tally(said, chosen, lambda rng, X=X, m=members, o=others: claimed(rng, X, m, o))
    for members, others in ((5, 100), (50, 400), (500, 100), (1000, 1000)):
        tally(
            f"scores of {members} members and {others} others",
            chosen,
            lambda rng, m=members, o=others: scores(rng, m, o),
            50,
        )
    for kind in LINES:
        tally(f"one input, {kind}", chosen, lambda rng, kind=kind: candidates(rng, kind), 50)


def tally(said: str, chosen: argparse.Namespace, drawn: Callable[[np.random.Generator], Verdict], times: int = 1) -> None:
    count = times * chosen.count
    verdicts = [drawn(np.random.default_rng([chosen.first, number])) for number in range(count)]
    leaks, failed = (sum(verdict is one for verdict in verdicts) for one in (Verdict.LEAK, Verdict.FAILED))
    print(f"{said}: {leaks} false leaks of {count}{f', {failed} failed' if failed else ''}", flush=True)


def kinds() -> Iterator[tuple[int, str, bool]]:
    yield 1, "", False
    for copies in (2, 10):
        for how in ("", "blurred", "moved"):
            yield copies, how, False
    for how in ("blurred", "moved"):
        yield 5, how, True


def several(rng: np.random.Generator, X: Array, copies: int, how: str) -> Array:
    """Each picture so many times, every copy another."""
    made = np.repeat(X, copies, axis=0).reshape(-1, SIDE, SIDE)
    if how == "blurred":
        made = np.clip(made + 0.1 * rng.standard_normal(made.shape), 0, 1)
    if how == "moved":
        made = np.stack([np.roll(one, rng.integers(-1, 2, 2), axis=(0, 1)) for one in made])
    return made.reshape(len(made), -1).astype(np.float32)


def handed_over(rng: np.random.Generator, X: Array, copies: int, how: str, both: bool) -> Verdict:
    """Two hundred pictures that were never seen, of which nothing was claimed, beside a hundred training images."""
    places = rng.permutation(len(X))
    seen = several(rng, X[places[: 100 // copies]], copies, how)
    others = X[places[100 : 100 + 1000 // copies]] if both else X[places[100:1100]]
    others = several(rng, others, copies, how) if both else others
    finding = Finding.none_found("Nothing was claimed.", power="p", loot=TrainingData(X[places[1100:1300]]))
    return judged(rng, finding, seen, others)


def claimed(rng: np.random.Generator, X: Array, members: int, others: int) -> Verdict:
    places, known = rng.permutation(len(X)), members + others
    evidence = Claims.of(0.9, np.full(30, 0.95), np.zeros(30, bool), np.zeros((0, X.shape[1]), np.float32))
    finding = Finding.leak(TrainingData(X[places[known : known + 30]]), "30 training images come out.", evidence=evidence)
    return judged(rng, finding, X[places[:members]], X[places[members:known]])


def judged(rng: np.random.Generator, finding: Finding[TrainingData], seen: Array, others: Array) -> Verdict:
    W = 0.05 * rng.standard_normal((30, seen.shape[1])).astype(np.float32)
    held = Weights(((W, np.zeros(30)), (rng.standard_normal((1, 30)), np.zeros(1))), mean=seen.mean(axis=0))
    truth: dict[str, Access] = {"training_data": TrainingData(seen, shape=(SIDE, SIDE))}
    truth |= {"candidates": Candidates(others)} if len(others) else {}
    return images.scored(finding, held, Truth(truth)).verdict


def scores(rng: np.random.Generator, members: int, others: int) -> Verdict:
    told = rng.standard_normal(members + others)
    told = np.round(told) if rng.integers(2) else told
    member = np.arange(len(told)) < members
    finding = Finding.none_found("Nothing.", power="p", loot=Membership(told, np.zeros(len(told), bool)))
    return membership.scored(finding, Truth({"membership": Membership(told, member)}), None).verdict


LINES: dict[str, Draw] = {
    "even": lambda rng: rng.uniform(-1, 1, 220),
    "normal": lambda rng: rng.standard_normal(220),
    "skewed": lambda rng: rng.lognormal(0, 1, 220),
    "heavy tails": lambda rng: rng.standard_t(3, 220),
    "two clusters": lambda rng: np.where(rng.random(220) < 0.5, -1, 1) + 0.05 * rng.standard_normal(220),
    "three decimals": lambda rng: np.round(rng.standard_normal(220), 3),
}


def candidates(rng: np.random.Generator, kind: str) -> Verdict:
    """The rule alone: of candidates drawn like the training points, as many are near one as chance has it."""
    count = int(rng.choice([20, 100, 200]))
    drawn = LINES[kind](rng)
    truth, strangers = np.sort(drawn[:count]), drawn[200:]
    near = univariate.NEAR * float(np.ptp(truth))
    right = int((np.abs(strangers[:, None] - truth).min(axis=1) <= near).sum())
    chance = univariate.chance_of(truth, near)
    return Verdict.LEAK if univariate.beyond_chance(right, len(strangers), chance) else Verdict.NONE_FOUND


if __name__ == "__main__":
    main()
