"""The drawing runs from left to right, and no two boxes touch."""

from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings, strategies as st

from divulge import report
from divulge.contract import Finding, Holding, Hyperparameters, Provenance, Record, Verdict
from divulge.report import graph, layout

NAMES = [f"thing {number}" for number in range(5)]


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any findings between five things, circles included."""
    findings: list[Finding[Hyperparameters]] = []
    for _ in range(draw(st.integers(0, 7))):
        inputs = dict.fromkeys(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)), "hash")
        won = draw(st.sampled_from([*NAMES, "loot", ""]))
        origin = Provenance("attack", inputs=inputs, won=won)
        findings.append(
            Finding.leak(Hyperparameters({"a": 1.0}), "won", provenance=origin)
            if draw(st.booleans())
            else Finding.failed("no", provenance=origin)
        )
    return Record("", tuple(Holding(name, "weights", "", "") for name in NAMES), tuple(findings))


@settings(deadline=None)
@given(records())
def test_boxes_never_overlap_and_lie_within_the_drawing(record: Record) -> None:
    drawing = graph.draw(record)
    for box in drawing.boxes:
        assert box.x >= 0
        assert box.x + box.width <= drawing.width
        assert box.y >= 0
        assert box.y + graph.HEIGHT <= drawing.height
    for one, other in combinations(drawing.boxes, 2):
        beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert beside or abs(one.y - other.y) >= graph.HEIGHT


def test_the_chain_reads_from_left_to_right(record: Record) -> None:
    boxes = {box.full: box for box in graph.draw(record).boxes}
    ways = [next(box.x for full, box in boxes.items() if full.startswith(start)) for start in (
        "api:", "Gradient extraction:", "weights of api:", "Kkt reconstruction:", "training data of api:",
    )]  # fmt: skip
    assert ways == sorted(set(ways))


def test_every_finding_is_an_edge_with_its_verdict_and_a_link(record: Record) -> None:
    tried = [box for box in graph.draw(record).boxes if box.link]
    assert [box.link for box in tried] == [f"#finding-{number}" for number in range(1, 7)]
    assert [box.below for box in tried] == [str(finding.verdict) for finding in record.findings]


def test_what_was_won_stands_apart_from_what_was_held(record: Record) -> None:
    styles = {box.full.split(":")[0]: box.style for box in graph.draw(record).boxes if not box.link}
    assert styles["api"] == "start"
    assert styles["weights of api"] == "won"
    assert styles["membership of api"] == "taken"


def test_what_the_truth_denies_is_dashed_and_called_a_claim(record: Record) -> None:
    first, second, *rest = record.findings
    denied = replace(second, verdict=Verdict.FAILED, summary="The truth contradicts what the attack claimed.")
    drawing = graph.draw(replace(record, findings=(first, denied, *rest)))
    styles = {box.full.split(":")[0]: box.style for box in drawing.boxes if not box.link}
    assert styles["training data of api"] == "denied"
    assert drawing.denies
    assert "failed, claiming training data of api" in drawing.words
    assert not graph.draw(record).denies
    page = report.render(replace(record, findings=(first, denied, *rest)))
    assert "dashed ones were claimed and the truth denies them" in page
    assert "What was claimed: training data" in page


def test_a_line_that_skips_a_column_runs_between_its_boxes() -> None:
    placed = layout.place({"a": 0, "b": 1, "c": 2}, [("a", "b"), ("b", "c"), ("a", "c")], box=50, gap=20)
    (column, height), *more = placed.bends[2]
    assert (column, more) == (1, [])
    assert abs(height - placed.middles["b"]) >= 70
