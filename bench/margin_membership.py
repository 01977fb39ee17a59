"""Whether margin-membership claims members among pictures of which none was trained on.

    python bench/margin_membership.py

Networks for digits, photographs and clothes, trained to a loss of 4e-6 on 50 to 200 pictures, asked about 2,000 test
pictures with every rule: the margin known, half of it as a bound, five candidates said to hold a member, nothing known, and
`on` the margin. Cells are the share of the pictures called members / of made-up points, and LEAK where one is claimed.
Needs the full sets in the folder that DIVULGE_DATA names.
"""

import numpy as np

from divulge import Candidates, Predictions, datasets, victims
from divulge.attacks import MarginMembership
from divulge.solvers.statistics.logit_gap import logit_gaps

NETWORKS = ((50, [300], 2000), (100, [300, 300], 2001), (100, [300], 2002), (200, [1000], 2003))
"Members, hidden units and seed; the rule for claims was settled on seeds 1000 to 1003."


def main():
    claims = asked = 0
    for name in ("mnist-odd-even", "cifar-vehicles-animals", "fashion-mnist"):
        for members, hidden, seed in NETWORKS:
            data = datasets.load(name, samples=members, seed=seed, full=True)
            rng = np.random.default_rng(seed)
            made = victims.make("margin", data.X, data.y, rng, shape=data.shape, hidden=hidden)
            network = made.held["network"]
            margin = float(logit_gaps(network.predict(data.X), "values").values.min())
            rules = {
                "known": {"margin": margin},
                "bound": {"at_least": margin / 2},
                "one of five": {"one_of": tuple(range(5))},
                "unknown": {},
                "on": {"margin": margin, "rule": "on"},
            }
            cells = []
            for rule, options in rules.items():
                finding = MarginMembership(**options)(Predictions.of(network), Candidates(data.X_test[:2000]))
                score, leak = finding.scores["candidates called members"], finding.verdict.value == "leak"
                cells.append(f"{rule} {score.value:.3f}/{score.null:.3f}{' LEAK' if leak else ''}")
                claims, asked = claims + leak, asked + 1
            print(f"{name:24} {members:4d} {hidden!s:12} {'   '.join(cells)}", flush=True)
    print(f"{claims} claims in {asked} tries")


if __name__ == "__main__":
    main()
