"""Whether any finding of the demonstration, or of any experiment at quick scale, contradicts itself.

python bench/contradictions.py --seed 100
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from divulge import demo, experiments
from divulge.contract import Finding, contradictions
from divulge.errors import BadInput


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=100)
    chosen = parser.parse_args()
    verdicts: Counter[str] = Counter()
    found = 0
    for name, finding in findings(chosen.seed):
        verdicts[str(finding.verdict)] += 1
        for said in contradictions(finding):
            found += 1
            print(f"{name}: {said}\n  {finding.summary}", flush=True)
    ended = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    print(f"{found} contradictions in {verdicts.total()} findings: {ended}")


def findings(seed: int) -> Iterator[tuple[str, Finding]]:  # type: ignore[type-arg]  # of any loot
    with tempfile.TemporaryDirectory() as folder:
        for finding in demo.run(Path(folder) / "run", seed).record.findings:
            yield "demo", finding
    for name in experiments.names():
        try:
            outcome = experiments.run(experiments.read(name), seed=seed)
        except BadInput as error:
            print(f"{name} was not run: {error}", flush=True)
            continue
        for cell in outcome.cells:
            yield name, cell.finding


if __name__ == "__main__":
    main()
