"""Scores of other tools: taken as they are, measured like any attack's, from files as people have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from divulge import Membership, Scores, Verdict, audit
from divulge.arrays import Array
from divulge.attacks import ImportedMembership
from divulge.cli import main
from divulge.contract import Curve, Finding
from divulge.errors import BadInput


def people(count: int = 1000, shift: float = 1.5, seed: int = 0) -> tuple[Array, Array, Array]:
    """Names, scores, and who is a member."""
    rng = np.random.default_rng(seed)
    member = rng.random(count) < 0.4
    names = np.array([f"p{number}" for number in rng.permutation(count)])
    return names, rng.normal(size=count) + shift * member, member


def truth_of(names: Array, member: Array) -> dict[str, Membership]:
    return {"membership": Membership(member.astype(float), member, names)}


def won(finding: Finding[Membership]) -> Membership:
    assert finding.loot is not None
    return finding.loot


def test_scores_alone_claim_nothing() -> None:
    names, scores, _ = people()
    finding = ImportedMembership()(Scores(scores, names, "LiRA"))
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.summary == "1,000 records with membership scores from LiRA."
    assert won(finding).records is not None
    assert (won(finding).scores == scores).all()
    assert not won(finding).decisions.any()
    assert not finding.provenance.claimed


def test_the_truth_makes_a_leak_of_scores_that_tell_members_whatever_its_order() -> None:
    names, scores, member = people()
    order = np.random.default_rng(1).permutation(len(names))
    finding = ImportedMembership()(Scores(scores, names), truth=truth_of(names[order], member[order]))
    assert finding.verdict is Verdict.LEAK
    assert finding.summary.startswith("Members stand out: TPR at 1 % FPR")
    assert finding.scores["AUC"].value == pytest.approx(0.856, abs=0.03)
    assert isinstance(finding.figures[0], Curve)


def test_scores_that_know_nothing_are_no_leak_and_say_what_would_have_been_one() -> None:
    names, scores, member = people(shift=0)
    finding = ImportedMembership()(Scores(scores, names), truth=truth_of(names, member))
    assert finding.verdict is Verdict.NONE_FOUND
    assert "AUC 0." in finding.power


def test_a_low_score_can_mean_member() -> None:
    names, scores, member = people()
    truth = truth_of(names, member)
    high = ImportedMembership(threshold=1)(Scores(scores, names), truth=truth)
    low = ImportedMembership(threshold=-1, higher=False)(Scores(-scores, names), truth=truth)
    assert high.scores == low.scores
    assert (won(high).decisions == (scores >= 1)).all()
    assert (won(low).decisions == won(high).decisions).all()
    assert (
        f"; {int((scores >= 1).sum())} of them are called members."
        in ImportedMembership(threshold=1)(Scores(scores)).summary
    )
    wrong = ImportedMembership()(Scores(-scores, names), truth=truth)
    assert wrong.verdict is Verdict.NONE_FOUND
    assert wrong.scores["AUC"].value == pytest.approx(1 - high.scores["AUC"].value)
    assert wrong.notes[-1].endswith("if a lower score means member, set higher = false.")


def taken(*given: Any) -> Scores:
    """From whatever a caller may have."""
    return Scores(*given)


def known(*given: Any) -> Membership:
    return Membership(*given)


def with_options(**given: Any) -> ImportedMembership:
    return ImportedMembership(**given)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: taken([0.1, np.nan]), "expected finite numbers for membership scores, got 1 NaN or infinite"),
        (lambda: taken([]), "expected at least one membership score, got none"),
        (lambda: taken([[0.1]]), "expected a 1-D array for membership scores"),
        (lambda: taken(["high"]), "expected numbers for membership scores, got <U4"),
        (lambda: taken([0.1, 0.2], ["a", "a"]), "expected every record of the scores once, got 'a' 2 times"),
        (lambda: taken([0.1, 0.2], ["a"]), "expected one record for each of the 2 scores"),
        (lambda: taken([0.1], [0.5]), "expected whole numbers or text as records of the scores, got float64"),
        (lambda: known([0.1, 0.2], [1, 0], [3, 3.0]), "got '3' 2 times"),
        (lambda: with_options(threshold="high"), "option 'threshold'"),
    ],
)
def test_scores_that_cannot_be_used_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        make()


def test_records_may_be_whole_numbers_that_a_table_read_as_others() -> None:
    records = taken([0.1, 0.2], [3.0, 4.0]).records
    assert records is not None
    assert records.dtype.kind == "i"


AUDIT = """
out = "run"
[held.lira]
kind = "scores"
file = "lira.csv"
source = "LiRA"
[truth.membership]
file = "lira.csv"
"""


def written(folder: Path, frame: pd.DataFrame, text: str = AUDIT) -> str:
    frame.to_csv(folder / "lira.csv", index=False)
    (folder / "AUDIT.toml").write_text(text)
    return str(folder / "AUDIT.toml")


@pytest.mark.slow
def test_one_table_of_records_scores_and_members_is_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, scores, member = people()
    frame = pd.DataFrame({"record": names, "score": scores, "member": member})
    assert main(["audit", written(tmp_path, frame)]) == 0
    assert "imported-membership on lira: Members stand out" in " ".join(capsys.readouterr().out.split())
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Members found and false alarms" in page
    assert "Members most exposed" in page
    assert "TPR at 1 % FPR" in page


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda frame: frame.drop(columns="score"), "expected a column named 'score' in lira.csv, got record, member; name"),
        (
            lambda frame: frame.drop(columns="record"),
            "expected a column named 'record' in lira.csv, got score, member; name",
        ),
        (
            lambda frame: frame.drop(columns="member"),
            "expected a column named 'member' in lira.csv, got record, score; name",
        ),
        (lambda frame: frame.assign(score=frame.score.mask(frame.index < 2)), "got 2 NaN or infinite values"),
        (lambda frame: frame.assign(score="high"), "expected numbers in column 'score' of lira.csv, got 'high'"),
        (lambda frame: frame.assign(record="p1"), "expected every record of the scores once, got 'p1' 1000 times"),
        (lambda frame: frame.assign(record=frame.record.mask(frame.index < 3)), "every row of lira.csv, got 3 rows without"),
        (lambda frame: frame.assign(member=2), "expected 1 for members and 0 for others in lira.csv, got other values"),
        (lambda frame: frame.assign(member=frame.member.mask(frame.index < 4)), "of lira.csv, got 4 rows without"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[pd.DataFrame], pd.DataFrame], sentence: str
) -> None:
    names, scores, member = people()
    frame = change(pd.DataFrame({"record": names, "score": scores, "member": member}))
    assert main(["audit", written(tmp_path, frame)]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_scores_from_several_tools_stand_in_one_report(tmp_path: Path) -> None:
    names, scores, member = people()
    noise = np.random.default_rng(2).normal(size=len(names))
    held = {"LiRA": Scores(scores, names), "noise": Scores(noise, names)}
    made = audit(held, truth_of(names, member), out=tmp_path / "run", attacks=["imported-membership"])
    verdicts = {next(iter(finding.provenance.inputs)): finding.verdict for finding in made.findings}
    assert verdicts == {"LiRA": Verdict.LEAK, "noise": Verdict.NONE_FOUND}
