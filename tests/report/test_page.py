"""The page says what the record says, is the same for the same record, and lets nothing in."""

import hashlib
import html as entities
import re
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divulge import report, storage
from divulge.contract import (
    Curve,
    Finding,
    Holding,
    Hyperparameters,
    ImagePairs,
    Provenance,
    Record,
    Score,
    TrainingData,
)

from .example import full_record

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>`</code>`{{ 7*7 }}</title></style>'


def text(page: str) -> str:
    """What a reader reads."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    body = re.sub(r"</(t[hd]|d[td]|div|p|h\d)>", " ", body)
    return re.sub(r"\s+", " ", entities.unescape(re.sub(r"<[^>]*>", "", body)))


def test_a_page_with_100_pictures_and_7_charts_is_under_2_megabytes(html: str) -> None:
    assert html.count("<img ") >= 100
    assert html.count("data-chart=") == 7
    assert len(html.encode()) < 2_000_000


def test_pictures_that_do_not_compress_are_fewer_and_the_page_stays_under_2_megabytes(record: Record) -> None:
    noise = np.random.default_rng(0).uniform(size=(100, 32, 32, 3))
    finding = record.findings[1]
    worst = replace(
        finding,
        loot=TrainingData(noise.reshape(100, -1), shape=(32, 32, 3)),
        figures=(ImagePairs("noise", noise, noise, "true", "found"), *finding.figures[1:]),
    )
    page = report.render(replace(record, findings=(record.findings[0], worst, *record.findings[2:])))
    assert page.count("<img ") >= 100
    assert "of 100 pairs" in page
    assert len(page.encode()) < 2_000_000


@pytest.mark.slow
def test_the_same_record_gives_the_same_bytes(record: Record, html: str) -> None:
    assert report.render(record) == html
    assert report.render(full_record()) == html


@pytest.mark.slow
def test_another_process_gives_the_same_bytes(html: str) -> None:
    script = (
        "import hashlib; from divulge import report; from report.example import full_record; "
        "print(hashlib.sha256(report.render(full_record()).encode()).hexdigest())"
    )
    tests = Path(__file__).parent.parent
    other = subprocess.run([sys.executable, "-c", script], cwd=tests, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == hashlib.sha256(html.encode()).hexdigest()


def test_a_record_read_back_from_disk_gives_the_same_page(record: Record, html: str, tmp_path: Path) -> None:
    storage.save(record, tmp_path / "findings.json")
    assert report.render(storage.load(tmp_path / "findings.json")) == html


def test_write_leaves_one_file_and_says_where(record: Record, html: str, tmp_path: Path) -> None:
    path = report.write(record, tmp_path / "run")
    assert path == tmp_path / "run" / "report.html"
    assert path.read_text("utf-8") == html
    assert list(path.parent.iterdir()) == [path]


def test_every_finding_shows_all_that_it_carries(record: Record, html: str) -> None:
    shown = text(html)
    for finding in record.findings:
        assert finding.summary.replace("`", "") in shown
        assert finding.power in shown
        for said in (*finding.notes, *map(str, finding.remedy)):
            assert said.replace("`", "") in shown
        for it in finding.taxonomy:
            assert f"{it.taxonomy} {it.version}: {it.id}" in shown
        for name, score in finding.scores.items():
            assert name in shown
            assert score.null_of in shown
        for figure in finding.figures:
            assert figure.title in shown
        for name, fingerprint in finding.provenance.inputs.items():
            assert f"{name} {fingerprint}" in shown
    for expected in ("12,345 queries", "3 min 12 s", "1.2e-10", "6.9e9× below the null", "tolerance = 1e-8", "numpy 2.4.6"):
        assert expected in shown


def test_loot_is_told_in_a_few_words(html: str) -> None:
    shown = text(html)
    assert "64 × 784" in shown
    assert "50,305 parameters, exact." in shown
    assert "alpha 0.31 0.3099 to 0.3101" in shown
    assert "The first 45 of 50 pictures." in shown
    assert "called members 33" in shown


def test_what_did_not_run_is_listed_with_its_reason(record: Record, html: str) -> None:
    section = text(html[html.index('id="not-run"') : html.index('id="annex"')])
    for name, reason in (*record.unmet.items(), *record.broken.items()):
        assert name in section
        assert reason in section


def test_what_won_nothing_is_one_table_with_its_reasons_and_powers(html: str) -> None:
    table = text(re.findall(r'<table role="table" class="attempts">.*?</table>', html, re.DOTALL)[0])
    assert "Members are not told apart from strangers. Power: With 150 members" in table
    assert "the proof needs one" in table
    assert "the budget of 600 seconds ran out" in table
    assert "Every weight of the network" not in table


def test_one_attack_that_did_not_apply_to_many_things_is_one_row(record: Record) -> None:
    univariate = record.findings[4]
    many = tuple(
        replace(univariate, provenance=replace(univariate.provenance, inputs={f"network {number}": "hash"}))
        for number in range(3)
    )
    page = report.render(replace(record, findings=many))
    table = re.findall(r'<table role="table" class="attempts">.*?</table>', page, re.DOTALL)[0]
    assert table.count("<tr role") == 2  # its heading, and the row
    assert "network 0; network 1; network 2" in text(table)
    assert "The same for all 3." in text(table)


def test_attempts_stand_together_only_where_their_reasons_differ_in_nothing_but_numbers(record: Record) -> None:
    univariate = record.findings[4]
    said = ("precise to 5e-03, 1e-05 is needed", "precise to 0.1, 1e-05 is needed", "it has two hidden layers")
    many = tuple(replace(univariate, summary=summary) for summary in said)
    page = report.render(replace(record, findings=many))
    table = re.findall(r'<table role="table" class="attempts">.*?</table>', page, re.DOTALL)[0]
    assert table.count("<tr role") == 3
    assert "precise to 5e-03, 1e-05 is needed The same for both, with other numbers." in text(table)
    assert "it has two hidden layers" in text(table)


def test_one_leak_of_many_things_is_one_section(record: Record) -> None:
    stolen = record.findings[2]
    many = tuple(
        replace(stolen, provenance=replace(stolen.provenance, inputs={f"ridge {number}": "hash"}, won=""))
        for number in range(3)
    )
    page = report.render(replace(record, findings=many))
    assert page.count('<article class="finding') == 1
    assert "3 times" in text(page)
    assert [f'id="finding-{number}"' in page for number in (1, 2, 3, 4)] == [True, True, True, False]


def test_every_link_of_the_page_leads_somewhere(html: str) -> None:
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    links = set(re.findall(r'href="#([^"]+)"', html))
    assert links <= set(ids)
    assert len(links) > 15


@pytest.mark.slow
def test_an_incomplete_audit_says_so_before_anything_else(record: Record) -> None:
    shown = text(report.render(replace(record, complete=False)))
    assert shown.index("This audit is incomplete.") < shown.index("gives away what it was trained on")
    assert "This audit is incomplete." not in text(report.render(record))


def test_the_page_makes_no_promises(html: str, record: Record) -> None:
    quiet = replace(record, findings=tuple(one for one in record.findings if one.verdict == "none found"))
    for page in (html, report.render(quiet)):
        assert not re.search(r"\b(compliant|compliance|anonymous|safe)\b", text(page), re.IGNORECASE)


def test_the_policy_names_every_script_and_style_by_its_hash_and_nothing_else(html: str) -> None:
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert found is not None
    policy = entities.unescape(found.group(1))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    scripts = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert rules["script-src"].split() == [hashed(script) for script in scripts]
    assert rules["style-src"].split() == [hashed(style) for style in styles]
    assert "unsafe" not in policy


def test_without_a_chart_no_drawing_script_is_carried_along(record: Record) -> None:
    page = report.render(replace(record, findings=(replace(record.findings[0], figures=()),)))
    assert len(re.findall("<script", page)) == 1  # unfolds what a link leads to
    assert "vega" not in page
    assert len(page) < 100_000


def test_hostile_text_stays_text() -> None:
    page = report.render(hostile_record())
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", page)[0]
    assert HOSTILE.replace("`", "") in text(page)


def test_an_empty_record_is_a_page() -> None:
    shown = text(report.render(Record("Nothing", (), ())))
    assert "nothing is known of what this gives away" in shown
    assert shown.count("Nothing that was held allows an attack on it.") == 5


def test_importing_the_room_is_cheap_and_a_missing_library_is_named() -> None:
    script = (
        "import sys, divulge.report as report; from divulge.contract import Record; "
        "assert not {'jinja2', 'vl_convert', 'PIL'} & set(sys.modules); sys.modules['jinja2'] = None; "
        "from divulge.errors import BadInput\n"
        "try: report.render(Record('', (), ()))\n"
        "except BadInput as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'divulge[report]'" in ran.stdout


def hashed(content: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def hostile_record() -> Record:
    """A record whose every text tries to leave its place."""
    figure = Curve(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: (np.array([1.0, 2.0]), np.array([1.0, 3.0]))}, marks={HOSTILE: 1.5})
    finding = Finding.leak(
        Hyperparameters({HOSTILE: 1.0}),
        HOSTILE,
        scores={HOSTILE: Score(1.0, 0.5, HOSTILE, unit=HOSTILE)},
        figures=(figure,),
        notes=(HOSTILE,),
        remedy=(HOSTILE,),
        provenance=Provenance(
            HOSTILE,
            HOSTILE,
            HOSTILE,
            options={HOSTILE: HOSTILE},
            inputs={HOSTILE: HOSTILE},
            won=HOSTILE,
            versions={HOSTILE: HOSTILE},
        ),
    )
    return Record(
        HOSTILE,
        (Holding(HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        (finding, replace(finding, provenance=Provenance(HOSTILE, inputs={HOSTILE: HOSTILE}, won="loot"))),
        unmet={HOSTILE: HOSTILE},
        broken={HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
    )


@pytest.mark.parametrize("severity", ["high", "low"])
def test_a_severity_is_a_word(html: str, severity: str) -> None:
    assert f'<span class="severity {severity}">{severity}</span>' in html


@pytest.mark.parametrize("verdict", ["leak", "none-found", "not-applicable", "failed"])
def test_a_verdict_has_a_sign_and_a_word_of_its_own(html: str, verdict: str) -> None:
    assert f'<symbol id="sign-{verdict}"' in html
    assert re.search(rf'class="badge {verdict}">.*?#sign-{verdict}.*?{verdict.replace("-", " ")}</span>', html)
