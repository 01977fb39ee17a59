"""Before and after: an audit, and the same audit behind a defence, with what that costs the users."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.svm import SVC

from divulge import Fitted, Gradients, Hyperparameters, Predictions, TrainingData, Verdict, Weights, audit, cli, usefulness
from divulge.attacks import Surrogate
from divulge.auditing import Audit, reopen
from divulge.contract import (
    Access,
    Array,
    Budget,
    Candidates,
    Cost,
    Finding,
    Holding,
    Parameters,
    Provenance,
    Record,
    Trial,
    Truth,
)
from divulge.errors import BadInput
from divulge.report import render, trials
from divulge.report.opening import opening
from divulge.runner import Nobody
from divulge.serving import Server
from divulge.storage import fingerprint
from divulge.victims import classical

from .test_front_door import API, NETWORK, run, sent

LIMITED = ["gradient-extraction", "value-extraction"]


def points() -> tuple[Array, Array]:
    """Points, and labels that the network gets right nine times of ten."""
    X = np.random.default_rng(0).standard_normal((300, 4))
    y = NETWORK.predict(X).argmax(axis=1)
    y[::10] = 1 - y[::10]
    return X, y


def tried(defend: Any, held: Access | None = None, **rest: Any) -> Audit:
    known = {"weights": NETWORK, "candidates": Candidates(*points())}
    rest = {"attacks": ["gradient-extraction"], "truth": known, **rest}
    return audit({"api": held or Gradients.of(NETWORK)}, defend=defend, **rest)


def verdicts(trial: Trial) -> dict[str, str]:
    return {finding.provenance.attack: finding.verdict.value for finding in trial.findings}


def content(audit: Audit) -> str:
    """Everything an audit found, before and after, without the time it took."""
    record = audit.record

    def timeless(findings: tuple[Finding[Any], ...]) -> list[Any]:
        return [replace(finding, cost=Cost(finding.cost.points)) for finding in findings]

    return fingerprint(
        [timeless(record.findings), [[replace(one, findings=()), timeless(one.findings)] for one in record.trials]]
    )


def test_three_digits_stop_what_leaks_without_them_at_no_cost_in_accuracy() -> None:
    found = tried("rounding=3")
    (trial,) = found.record.trials
    assert [finding.verdict for finding in found.findings] == [Verdict.LEAK]
    assert verdicts(trial) == {"gradient-extraction": "not applicable"}
    assert (trial.defence, trial.guarded) == ("rounding, digits = 3", ("api",))
    assert trial.kept["accuracy"] == (0.9, 0.9)
    assert trial.kept["answers with the same label"] == (1.0, 1.0)
    assert trial.kept["cosine of the explanations"][1] == pytest.approx(1, abs=1e-5)
    assert not trial.partial
    assert found.record.complete
    (table,) = trials.tables(found.record)
    assert table.sentence == "Behind rounding to 3 digits, the one leak is gone; accuracy stays 0.9."
    assert trials.best(found.record) is trial


def test_accuracy_that_is_lost_is_measured() -> None:
    (trial,) = tried([{"name": "noise", "sigma": 1.0}]).record.trials
    before, after = trial.kept["accuracy"]
    assert before == 0.9
    assert 0.5 < after < 0.85
    assert 0.5 < trial.kept["answers with the same label"][1] < 0.9
    assert 0.3 < trial.kept["cosine of the explanations"][1] < 0.9


def test_without_labels_agreement_is_measured_and_without_points_nothing() -> None:
    X, _ = points()
    held: dict[str, Access] = {"api": Gradients.of(NETWORK), "asked": Candidates(X)}
    (trial,) = audit(held, attacks=["gradient-extraction"], defend="rounding=2").record.trials
    assert set(trial.kept) == {"answers with the same label", "cosine of the explanations"}
    found = tried("rounding=2", truth={"weights": NETWORK})
    assert not found.record.trials[0].kept
    assert "was not measured" in trials.tables(found.record)[0].sentence


def test_each_defence_is_tried_by_itself_and_the_best_is_what_helps_at_least_cost() -> None:
    found = tried(["noise=3", "rounding=12", "rounding=3"])
    assert [one.defence for one in found.record.trials] == [
        "noise, sigma = 3", "rounding, digits = 12", "rounding, digits = 3",
    ]  # fmt: skip
    tables = trials.tables(found.record)
    assert [table.remaining for table in tables] == [0, 1, 0]
    assert trials.best(found.record) is found.record.trials[2]
    assert trials.best(tried("rounding=12").record) is None


def test_a_defence_that_users_cannot_afford_is_best_only_where_nothing_else_helps() -> None:
    record = tried(["rounding=3", "rounding=2"]).record
    cheap, dear = record.trials
    useless = replace(dear, findings=record.findings)
    ruined = replace(dear, kept={"accuracy": (0.9, 0.5)})
    assert trials.best(replace(record, trials=(ruined, cheap))) is cheap
    assert trials.best(replace(record, trials=(ruined, useless))) is ruined
    assert trials.best(replace(record, trials=(replace(cheap, partial=True),))) is None
    other = replace(cheap, kept={"accuracy": (0.9, 0.9), "answers with the same label": (1.0, 0.5)})
    assert trials.cost(other) == 0  # labels say nothing where accuracy does
    assert trials.cost(replace(cheap, kept={"answers with the same label of api": (1.0, 0.5)})) == 0.5


def test_what_falls_furthest_is_said_of_every_kind_of_model_and_what_nobody_measured() -> None:
    record = tried("rounding=3").record
    (trial,) = record.trials

    def said(**rest: Any) -> str:
        changed = replace(trial, **rest)
        return trials.table(replace(record, trials=(changed,)), changed).sentence.partition("; ")[2]

    kept = {"accuracy of net": (0.9, 0.88), "R² of api": (0.48, -0.22), "answers with the same label of net": (1.0, 0.99)}
    assert said(kept=kept) == "accuracy of net falls from 0.9 to 0.88; R² of api falls from 0.48 to -0.22."
    changed = {"accuracy": (0.54, 0.51), "answers with the same label": (1.0, 0.73)}
    assert said(kept=changed) == "accuracy falls from 0.54 to 0.51; answers with the same label fall from 1 to 0.73."
    assert said(kept={"R² of api": (0.5, 0.5)}, unmeasured=("model",)) == (
        "R² of api stays 0.5; what it costs users of model was not measured."
    )
    ruined = replace(trial, kept=kept)
    opened = opening(replace(record, trials=(ruined,)))
    assert opened.trial_heading.endswith("takes from users what they may not spare.")
    assert opening(record).trial_heading == "What helps most here, measured on this model."


def test_of_many_measures_those_that_changed_are_listed_and_the_others_counted() -> None:
    record = tried("rounding=3").record
    kept = {f"accuracy of model {number}": (0.9, 0.9 - 0.1 * (number == 3)) for number in range(6)}
    five, four = (dict(list(kept.items())[:many]) for many in (5, 4))
    for told, names, same in ((kept, ["accuracy of model 3"], 5), (five, ["accuracy of model 3"], 4), (four, list(four), 0)):
        trial = replace(record.trials[0], kept=told)
        table = trials.table(record, trial)
        assert ([one.name for one in table.told], table.same) == (names, same)
        page = render(replace(record, trials=(trial,)))
        assert (f"{same} other measures of use stayed as before." in page) == bool(same)


def test_the_cost_of_a_kernel_machine_is_named_as_unmeasured() -> None:
    X, y = points()
    held: dict[str, Access] = {"model": Fitted.of(SVC(C=0.3).fit(X, y)), "data": TrainingData(X, y)}
    (trial,) = audit(held, attacks=["hyperparameters"], defend="noise=0.01").record.trials
    assert trial.unmeasured == ("model",)
    assert not trial.kept


def test_noise_that_leaves_no_number_is_refused_with_its_reason() -> None:
    with pytest.raises(BadInput, match=r"got sigma = 1e\+308; give less"):
        tried("noise=1e308", NETWORK, attacks=["span-reconstruction"])


def test_a_leak_that_a_defence_cannot_touch_is_no_lack_of_leaks() -> None:
    X, _ = points()
    held: dict[str, Access] = {
        "model": Fitted.of(Ridge(alpha=0.3).fit(X, X[:, 0])), "data": TrainingData(X, X[:, 0]), "api": Gradients.of(NETWORK),
    }  # fmt: skip
    found = audit(held, attacks=["hyperparameters", "univariate-from-values"], defend="query-limit=5")
    assert [finding.verdict for finding in found.findings].count(Verdict.LEAK) == 1
    assert "there was no leak that it can touch" in trials.tables(found.record)[0].sentence


def test_what_ruins_explanations_is_dear_and_a_limit_has_no_known_cost() -> None:
    record = tried(["rounding=3", "rounding=2"]).record
    cheap, other = record.trials
    turned = replace(other, kept={"accuracy": (0.9, 0.9), "cosine of the explanations": (1.0, 0.04)})
    assert trials.cost(turned) == pytest.approx(0.96)
    assert trials.best(replace(record, trials=(turned, cheap))) is cheap
    said = trials.table(replace(record, trials=(turned,)), turned).sentence
    assert said.endswith("accuracy stays 0.9; cosine of the explanations falls from 1 to 0.04.")
    limit = replace(cheap, told={"name": "query-limit", "points": 1})
    assert trials.cost(limit) is None
    assert trials.best(replace(record, trials=(limit, cheap))) is cheap
    said = trials.table(replace(record, trials=(limit,)), limit).sentence
    assert said.endswith("what a limit costs who needs more answers was not measured.")
    assert trials.cost(replace(cheap, kept={})) is None


def test_noise_on_probabilities_costs_only_the_labels_that_it_changes() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))

    def likely(X: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-8 * X[:, 0])))

    y = (X[:, 0] > 0).astype(int)
    plain = Predictions(likely, 3)
    kept = usefulness.measured(
        plain, Predictions(lambda X: likely(X) + 0.01 * rng.standard_normal(len(X)), 3),
        Truth({"candidates": Candidates(X, y)}), {}, Budget(),
    )  # fmt: skip
    assert kept["accuracy"][0] == 1
    assert kept["accuracy"][1] > 0.95


def test_explanations_that_a_defence_makes_nothing_have_nothing_in_common() -> None:
    plain = np.random.default_rng(0).standard_normal((40, 3))
    gone = np.where(np.arange(40)[:, None] < 39, 0, plain)
    assert usefulness._cosine(plain, gone, np.zeros((40, 1))) == pytest.approx(1 / 40)
    assert usefulness._cosine(np.zeros((40, 3)), gone, np.zeros((40, 1))) == 1


def test_findings_are_paired_by_the_way_to_what_they_start_from_and_not_by_its_name() -> None:
    """Where the first extraction fails behind a defence, the loot of the second takes its name."""

    def step(attack: str, source: str, won: str, loot: Access, verdict: Verdict = Verdict.LEAK) -> Finding[Any]:
        about = Provenance(attack, inputs={source: "hash"}, won=won, asset=loot.asset)
        if verdict is not Verdict.LEAK:
            return Finding.not_applicable("No.", provenance=replace(about, won="", claimed=False))
        return Finding.leak(loot, "Won.", provenance=about)

    data = TrainingData(np.zeros((3, 4)))
    holdings = (Holding("api", "gradients", "", ""), Holding("weights of api", "weights", "", "", "first"))
    before = (
        step("first", "api", "weights of api", NETWORK), step("span", "weights of api", "data of api", data),
        step("second", "api", "weights of api by second", NETWORK),
        step("span", "weights of api by second", "data of api by second", data),
    )  # fmt: skip
    after = (
        step("first", "api", "", NETWORK, Verdict.NOT_APPLICABLE), step("second", "api", "weights of api", NETWORK),
        step("span", "weights of api", "data of api", data),
    )  # fmt: skip
    more = (
        Holding("weights of api by second", "weights", "", "", "second"),
        Holding("data of api", "training_data", "", "", "span"),
        Holding("data of api by second", "training_data", "", "", "span"),
    )  # fmt: skip
    trial = Trial("absolute", ("api",), after, {}, {"name": "absolute"})
    table = trials.table(Record("", (*holdings, *more), before, trials=(trial,)), trial)
    assert (table.before, table.remaining, table.new) == (4, 2, 0)
    sides = {(row.attack, row.inputs): (row.before.verdict, row.after.verdict) for row in table.rows}
    assert sides["span", ("weights of api",)] == ("leak", "not reached")
    assert sides["span", ("weights of api by second",)] == ("leak", "leak")


def test_a_limit_counts_for_every_attack_alone_and_running_into_it_is_an_answer(tmp_path: Path) -> None:
    found = tried("query-limit=60", attacks=LIMITED, out=tmp_path / "run")
    (trial,) = found.record.trials
    assert verdicts(trial) == {"gradient-extraction": "leak", "value-extraction": "failed"}
    assert found.record.complete
    assert not any(finding.partial for finding in trial.findings)
    assert trial.kept["accuracy"] == (0.9, 0.9)  # scoring is no customer
    assert content(tried("query-limit=60", attacks=LIMITED, out=tmp_path / "run")) == content(found)


def test_who_trains_a_copy_keeps_to_a_limit_that_it_is_told() -> None:
    held: dict[str, Access] = {
        "api": Gradients.of(NETWORK),
        "asked": Candidates(np.random.default_rng(1).standard_normal((600, 4))),
    }
    found = audit(held, {"weights": NETWORK}, attacks=["surrogate"], defend="query-limit=50")
    (finding,) = found.record.trials[0].findings
    assert finding.verdict is not Verdict.FAILED  # ten points to measure it by may be too few to claim a copy
    assert finding.cost.points == 50
    assert (finding.provenance.options["queries"], finding.provenance.options["holdout"]) == (40, 10)
    assert Surrogate().within(1000) == Surrogate()


def test_only_what_goes_back_to_something_guarded_is_run_again() -> None:
    other = Weights(((np.eye(4), np.ones(4)), (np.ones((1, 4)), np.zeros(1))))
    held: dict[str, Access] = {"api": Gradients.of(NETWORK), "values": Predictions.of(other)}
    found = audit(held, attacks=LIMITED, defend=["absolute", "label-only"])
    gradients, classes = found.record.trials
    assert (gradients.guarded, classes.guarded) == (("api",), ("values",))
    assert {tuple(finding.provenance.inputs) for finding in gradients.findings} == {("api",)}
    assert {tuple(finding.provenance.inputs) for finding in classes.findings} == {("values",)}
    assert [table.unguarded for table in trials.tables(found.record)] == [("values",), ("api",)]


def test_what_a_broken_chain_no_longer_reaches_is_said_to_be_so() -> None:
    found = tried("rounding=3", attacks=["gradient-extraction", "univariate-reconstruction"])
    (table,) = trials.tables(found.record)
    after = {row.attack: row.after.verdict for row in table.rows}
    assert after == {"gradient-extraction": "not applicable", "univariate-reconstruction": "not reached"}
    (row,) = [row for row in table.rows if row.before.leak]
    assert (row.before.severity, row.number, row.score) == ("high", 1, "largest error at points")
    assert row.before.value is not None
    assert row.before.value < 1e-9 < (row.before.null or 0)


def test_a_defence_that_guards_nothing_of_what_is_held_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'label-only' can stand before predictions, and what is held is gradients; leave"):
        tried("label-only", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(BadInput, match="gradients of several outputs"):
        tried("top-class", Gradients.of(Weights(((np.eye(4), np.ones(4)), (np.ones((1, 4)), np.zeros(1))))))


@pytest.mark.parametrize(
    ("defend", "sentence"),
    [
        ("rouding=3", "unknown key 'rouding'; did you mean 'rounding'"),
        ("encryption", "use one of: absolute, label-only, noise, query-limit, rounding, smoothgrad, top-class"),
        ("rounding=", "expected a defence as NAME or NAME=SETTINGS, got 'rounding='; write rounding=3"),
        ("rounding=digits=3", "option 'digits': input should be a valid integer"),
        ("rounding=digits:true", "expected a number as digits of the defence 'rounding', got True"),
        ("rounding", "expected one of decimals and digits for rounding, got neither; write rounding=3"),
        (3, "expected defences such as 'rounding=3', or a list of them, got 3"),
        ("rounding=3,values", "expected SETTING:VALUE in the defence 'rounding=3,values', got 'values'; write"),
        ("rounding=digits:3,digits:4", "each setting once"),
        ("rounding=digit:3", "unknown key 'digit'; did you mean 'digits'"),
        ("absolute=1", "expected SETTING:VALUE in the defence 'absolute=1'"),
        ("noise", "expected sigma for the defence 'noise'"),
        ({"digits": 3}, "expected a defence such as"),
        (["rounding=3", "rounding=digits:3"], "expected every defence once"),
    ],
)
def test_a_mistake_in_a_defence_is_one_sentence(defend: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        tried(defend)


def test_settings_can_be_written_in_short() -> None:
    (trial,) = tried("rounding=decimals:4,of:gradients").record.trials
    assert dict(trial.told) == {"name": "rounding", "decimals": 4, "of": "gradients"}
    (table,) = trials.tables(replace(tried([]).record, trials=(trial,)))
    assert table.sentence.startswith("Behind rounding to 4 decimals of gradients, ")
    said = [trials.phrase(told, "as it stands") for told in (
        {"name": "noise", "sigma": 1}, {"name": "rounding", "digits": 1}, {"name": "noise", "sigma": 1, "fresh": True},
        {"name": "query-limit", "points": 50}, {"name": "absolute"},
    )]  # fmt: skip
    assert said == ["noise of 1", "rounding to 1 digit", "as it stands", "a limit of 50 points", "as it stands"]


def test_rounding_and_noise_stand_before_what_is_released_too() -> None:
    data = np.random.default_rng(1)
    X = data.standard_normal((80, 5))
    y = X @ [1.0, 2.0, -1.0, 0.5, 3.0] + data.standard_normal(80)
    ridge = classical.train("ridge", X, y, alpha=0.7)
    held: dict[str, Access] = {"model": Fitted.of(ridge), "data": TrainingData(X, y)}
    found = audit(held, {"hyperparameters": Hyperparameters.of(ridge)}, attacks=["hyperparameters"], defend="rounding=1")
    (trial,) = found.record.trials
    assert [finding.verdict for finding in found.findings] == [Verdict.LEAK]
    assert verdicts(trial)["hyperparameters"] != "leak"
    fit, rounded = trial.kept["R² on data"]
    assert 0.9 < rounded < fit


@pytest.mark.parametrize("name", ["rounding=1", "noise=0.5"])
def test_released_numbers_all_change_and_keep_their_shapes(name: str) -> None:
    rng = np.random.default_rng(2)
    held: Mapping[str, Access] = {
        "network": NETWORK,
        "fitted": Fitted("ridge", coef=rng.standard_normal(4), intercept=np.array(0.123)),
        "parameters": Parameters(dual_coef=rng.standard_normal(6)),
    }
    (trial,) = audit(held, attacks=["span-reconstruction"], defend=name).record.trials
    assert trial.guarded == ("network", "fitted", "parameters")
    for finding in trial.findings:
        assert finding.provenance.inputs["network"] != fingerprint(NETWORK)


class Stops(Nobody):
    """Somebody who stops the audit after so many findings."""

    def __init__(self, after: int) -> None:
        self.left = after

    def ends(self, step: Any, finding: Any, kept: bool) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [3, 5, 8])
def test_an_audit_that_is_stopped_at_any_finding_ends_with_the_same_record(tmp_path: Path, after: int) -> None:
    # Each has an answer that is drawn anew, counted, or neither.
    defend = ["rounding=2", "query-limit=70", "noise=sigma:0.1,fresh:true"]
    held = Gradients(NETWORK.predict, 4, "fixed", gradient=Gradients.of(NETWORK).gradient)
    whole = tried(defend, held, attacks=LIMITED, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        tried(defend, held, attacks=LIMITED, out=tmp_path / "stopped", observer=Stops(after))
    stopped = reopen(tmp_path / "stopped")
    assert not stopped.complete
    assert all(trial.partial for trial in stopped.trials[-1:])
    assert content(tried(defend, held, attacks=LIMITED, out=tmp_path / "stopped")) == content(whole)
    assert content(Audit(reopen(tmp_path / "stopped"), None)) == content(whole)


@pytest.mark.parametrize("share", [0.4, 0.8])
def test_an_audit_that_is_stopped_in_the_middle_of_an_attack_ends_with_the_same_record(tmp_path: Path, share: float) -> None:
    left = [10**9]

    def value(X: Array) -> Array:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return NETWORK.predict(X)

    defend = ["query-limit=100000", "noise=sigma:1e-14,fresh:true"]
    held = Predictions(value, 4, "fixed")
    rest: dict[str, Any] = {"attacks": ["value-extraction"], "truth": {"weights": NETWORK}}
    whole = tried(defend, held, out=tmp_path / "whole", **rest)
    left[0] = round(share * (10**9 - left[0]))
    with pytest.raises(KeyboardInterrupt):
        tried(defend, held, out=tmp_path / "stopped", **rest)
    assert content(tried(defend, held, out=tmp_path / "stopped", **rest)) == content(whole)


def test_a_budget_counts_for_the_trial_too_and_more_of_it_goes_on(tmp_path: Path) -> None:
    before = tried([]).findings[0].cost.points
    found = tried("rounding=12", budget=Budget(queries=before + 5), out=tmp_path / "run")
    (trial,) = found.record.trials
    assert trial.partial
    assert not found.record.complete
    assert "is not finished: time or queries ran out, or an attack broke off" in trials.tables(found.record)[0].sentence
    assert trials.best(found.record) is None
    again = tried("rounding=12", out=tmp_path / "run")
    assert verdicts(again.record.trials[0]) == {"gradient-extraction": "leak"}
    assert again.record.complete


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server(NETWORK, "mine") as made:
        thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def all_sent(found: dict[str, Any]) -> tuple[int, int]:
    """Rows and requests of both passes, and what was sent besides."""
    again = [finding for trial in found["trials"] for finding in trial["findings"]]
    return sent({**found, "findings": [*found["findings"], *again]})


def test_a_server_is_asked_only_for_new_points_and_every_row_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = points()
    np.savez("labelled.npz", X=X, y=y)
    text = API.format(url=server.url) + '[truth.candidates]\nfile = "labelled.npz"\n'
    (tmp_path / "audit.toml").write_text(text)
    plain = run(capfd, "audit", "audit.toml")
    before = server.rows
    found = run(capfd, "audit", "audit.toml", "--defend", "rounding=10", "--defend", "rounding=3", "--defend", "top-class")
    same, rounded, top = found["trials"]
    assert all_sent(found) == (server.rows, server.requests)
    assert found["findings"] == plain["findings"]
    assert same["findings"][0]["points"] > same["findings"][0]["rows"]  # the same points are in the books
    assert rounded["findings"][0]["verdict"] == "not applicable"
    assert top["guarded"] == ["api"]
    assert same["kept"]["accuracy"] == {"without": 0.9, "with": 0.9}
    assert found["sent"]["scoring"]["rows"] <= len(X)  # once for all three
    assert server.rows > before
    last = server.rows
    again = run(capfd, "audit", "audit.toml", "--defend", "rounding=10", "--defend", "rounding=3", "--defend", "top-class")
    assert server.rows <= last + 4  # a look
    assert all_sent(again) == (server.rows, server.requests)
    assert [one["findings"] for one in again["trials"]] == [one["findings"] for one in found["trials"]]


@pytest.mark.parametrize("queries", [30, 120, 400])
def test_a_budget_counts_what_the_server_counts_behind_defences_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server, capfd: pytest.CaptureFixture[str], queries: int
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("labelled.npz", X=points()[0], y=points()[1])
    text = API.format(url=server.url) + '[truth.candidates]\nfile = "labelled.npz"\n'
    (tmp_path / "audit.toml").write_text(f"{text}[budget]\nqueries = {queries}\n")
    for _ in range(2):
        found = run(capfd, "audit", "audit.toml", "--defend", "noise=0.01", "--defend", "smoothgrad=0.1")
        assert not found["complete"]
        assert all_sent(found) == (server.rows, server.requests)
        assert server.rows <= queries + 4


def test_the_command_line_prints_both_columns_and_a_plan_says_what_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from .test_audit_file import EXAMPLES, make_files

    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)
    (tmp_path / "audit.toml").write_text((EXAMPLES / "defended.toml").read_text())
    assert cli.main(["audit", "audit.toml"]) == 0
    said = capfd.readouterr().out
    assert "Behind rounding to 3 digits, the one leak is gone; accuracy stays" in said
    assert "Behind a limit of 20 points, " in said
    assert said.count(trials.CAVEAT) == 1
    assert cli.main(["audit", "audit.toml", "--plan", "--defend", "noise=0.1"]) == 0
    assert "then, behind noise, sigma = 0.1 before api: 2 of 2 again" in capfd.readouterr().out
    assert cli.main(["audit", "audit.toml", "--plan", "--json"]) == 0
    steps = json.loads(capfd.readouterr().out)
    assert [step.get("behind") for step in steps] == [None] * 2 + ["rounding, digits = 3"] * 2 + [
        "query-limit, points = 20"
    ] * 2
    assert cli.main(["audit", "audit.toml", "--defend", "rounding=three"]) == 2
    assert "option 'digits'" in capfd.readouterr().err


def test_of_many_models_behind_one_defence_a_sentence_names_the_one_that_suffers_most() -> None:
    found = tried("rounding=3")
    kept = {f"accuracy of {name}": (0.9, 0.9 - lost) for name, lost in (("a", 0.0), ("b", 0.2), ("c", 0.1))}
    (trial,) = found.record.trials
    (table,) = trials.tables(replace(found.record, trials=(replace(trial, kept=kept),)))
    assert table.sentence.endswith(
        "of 3 measures of accuracy, the one that falls furthest: accuracy of b falls from 0.9 to 0.7."
    )


def test_points_of_another_width_measure_nothing_and_those_that_fit_are_taken() -> None:
    data = np.random.default_rng(1)
    X = data.standard_normal((80, 5))
    y = X @ [1.0, 2.0, -1.0, 0.5, 3.0] + data.standard_normal(80)
    held: dict[str, Access] = {
        "model": Fitted.of(classical.train("ridge", X, y, alpha=0.7)), "data": TrainingData(X, y),
        "api": Gradients.of(NETWORK),
    }  # fmt: skip
    known = {"candidates": Candidates(*points())}
    found = audit(held, known, attacks=["gradient-extraction"], defend="rounding=2")
    assert set(found.record.trials[0].kept) == {
        "R² on data of model", "accuracy of api", "answers with the same label of api",
        "cosine of the explanations of api",
    }  # fmt: skip
