"""Figures become charts that show the same at a fraction of the size."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import vl_convert

from divulge import report
from divulge.contract import Array, Curve, Figure, HeatMap, Histogram, Record, Scatter
from divulge.report import canvas, charts, maps, thinning


def test_a_thinned_line_keeps_its_ends_and_its_extremes() -> None:
    x, y = np.arange(50_000), np.random.default_rng(0).normal(size=50_000)
    kept = thinning.thin(x, y, 1000)
    assert len(kept) <= 1000
    assert {0, 49_999, y.argmin(), y.argmax()} <= set(kept)


def test_a_line_on_a_logarithmic_axis_keeps_detail_where_the_axis_is_wide() -> None:
    x = np.arange(1, 100_001)
    kept = x[thinning.thin(np.log(x), np.sin(x), 1000)]
    assert (kept <= 100).sum() > 90


def test_a_line_that_turns_back_is_thinned_all_the_same() -> None:
    angle = np.linspace(0, 20, 30_000)
    assert len(thinning.thin(np.cos(angle), np.sin(angle), 1000)) <= 1000


def test_short_lines_are_left_alone() -> None:
    assert thinning.thin(np.arange(5), np.arange(5)).tolist() == [0, 1, 2, 3, 4]


def test_blocks_are_means_and_know_where_they_begin() -> None:
    values = np.arange(24.0).reshape(4, 6)
    values[2:, 4:] = np.nan
    means, rows, columns = thinning.blocks(values, 3)
    assert means.shape == (3, 3)
    assert rows.tolist() == [0, 1, 2]
    assert columns.tolist() == [0, 2, 4]
    assert means[0].tolist() == [0.5, 2.5, 4.5]
    assert np.isnan(means[2, 2])


def test_rounding_keeps_what_varies() -> None:
    assert thinning.rounded(np.array([1_000_000.01, 1_000_000.02, np.nan])) == [1_000_000.01, 1_000_000.02, None]
    assert thinning.rounded(np.array([1 / 3, 1.0])) == [0.333333, 1.0]


@pytest.mark.parametrize("values", [[2.0, 2.0], [1.0], [0.0, 1e300]])
def test_bins_cover_every_value(values: list[float]) -> None:
    edges = thinning.edges(np.array(values))
    assert edges[0] <= min(values)
    assert edges[-1] >= max(values)
    assert len(edges) <= thinning.BINS + 1


def test_points_that_a_logarithmic_axis_cannot_show_are_counted() -> None:
    drawn = charts.curve(Curve("", "x", "y", {"a": (np.array([0.0, 1, 2]), np.array([1.0, -1, np.nan]))}, True, True))
    assert drawn.note.startswith("3 points not drawn")
    assert drawn.data["lines"]["x"] == []


def test_a_band_lies_under_its_line_and_reaches_no_lower_than_a_logarithmic_axis() -> None:
    x = np.array([0.01, 0.1, 1.0])
    bands = {"a": (x, np.array([0.0, 0.05, np.nan]), np.array([0.3, 0.4, 1.0]))}
    drawn = charts.curve(Curve("", "x", "y", {"a": (x, 2 * x), "b": (x, x)}, True, True, bands=bands))
    assert drawn.data["areas"] == {"x": [0.01, 0.1], "low": [0.01, 0.05], "high": [0.3, 0.4], "series": ["a", "a"]}
    first = drawn.spec["layer"][0]
    assert first["mark"]["type"] == "area"
    assert first["encoding"]["fillOpacity"]["condition"][0]["value"] < 0.3
    assert first["encoding"]["y"]["scale"]["domain"] == [0.01, 2.0]


def test_the_axis_makes_room_for_a_band() -> None:
    x = np.array([1.0, 2.0])
    drawn = charts.curve(Curve("", "x", "y", {"a": (x, x)}, bands={"a": (x, x - 5, x + 5)}))
    assert drawn.spec["layer"][0]["encoding"]["y"]["scale"]["domain"] == [-4.0, 7.0]


def test_a_wide_band_is_thinned() -> None:
    x = np.arange(1.0, 20_000)
    bands = {"a": (x, x, x + 1)}
    assert len(charts.curve(Curve("", "x", "y", {"a": (x, x)}, True, bands=bands)).data["areas"]["x"]) <= 2 * charts.HOVERED


def test_groups_of_a_histogram_are_compared_by_share() -> None:
    drawn = charts.histogram(Histogram("", "x", {"few": np.zeros(10), "many": np.concatenate([np.zeros(50), np.ones(50)])}))
    bars = drawn.data["bars"]
    assert dict(zip(zip(bars["group"], bars["low"], strict=True), bars["share"], strict=True))[("few", 0.0)] == 1.0
    assert sum(bars["count"]) == 110


def test_a_large_heat_map_is_drawn_as_blocks_and_says_so() -> None:
    drawn = charts.heat_map(HeatMap("", "x", "y", np.ones((300, 1000)), np.arange(1000), np.arange(300)))
    assert len(drawn.data["cells"]["value"]) == 10_000
    assert drawn.note == "300 × 1,000 values, drawn as the means of 100 × 100 blocks."


def test_points_of_a_scatter_plot_keep_their_group_and_those_that_cannot_be_shown_are_counted() -> None:
    groups = {"a": (np.array([1.0, 2, 0]), np.array([3.0, np.nan, 1])), "b": (np.array([5.0]), np.array([6.0]))}
    drawn = charts.scatter(Scatter("", "x", "y", groups, log_x=True, marks={"here": 4.0, "nowhere": -1.0}))
    assert drawn.data["dots"] == {"x": [1.0, 5.0], "y": [3.0, 6.0], "group": ["a", "b"]}
    assert drawn.data["marks"] == {"x": [4.0], "name": ["here"]}
    assert drawn.note.startswith("2 points not drawn")


def test_points_lie_on_their_lines() -> None:
    lines = {"f": (np.array([0.0, 10]), np.array([-3.0, 8])), "g": (np.array([0.0, 1]), np.zeros(2))}
    drawn = charts.scatter(Scatter("", "x", "y", {"a": (np.ones(1), np.ones(1))}, lines=lines))
    assert drawn.data["lines"] == {"x": [0, 10, 0, 1], "y": [-3, 8, 0, 0], "line": ["f", "f", "g", "g"]}
    ground, dots = drawn.spec["layer"]
    assert ground["encoding"]["y"]["scale"] == dots["encoding"]["y"]["scale"]
    assert ground["encoding"]["y"]["scale"]["domain"] == [-3, 8]


def test_a_crowded_scatter_plot_is_thinned_and_says_so() -> None:
    x = np.arange(10_000.0)
    drawn = charts.scatter(Scatter("", "x", "y", {"a": (x, x % 7), "b": (x[:5], x[:5])}))
    dots = drawn.data["dots"]
    assert dots["group"].count("a") == charts.SCATTERED
    assert dots["group"].count("b") == 5
    assert {0.0, 9999.0} <= set(dots["x"])
    assert drawn.note == "8,500 more points would lie on those drawn."


Points = Mapping[str, tuple[Array, Array]]


def overlaid(
    groups: Points | None = None,
    lines: Points | None = None,
    columns: Sequence[float] = (0.0, 1, 3),
    rows: Sequence[float] = (5.0, 7),
) -> HeatMap:
    values = np.arange(len(rows) * len(columns), dtype=float).reshape(len(rows), len(columns))
    return HeatMap("m", "x", "y", values, np.array(columns), np.array(rows), "loss", groups or {}, lines or {})


def rendered(drawn: canvas.Chart) -> str:
    """The drawing as the page makes it, without the page."""
    rows = {
        name: [dict(zip(part, row, strict=True)) for row in zip(*part.values(), strict=True)]
        for name, part in drawn.data.items()
    }
    svg: str = vl_convert.vegalite_to_svg({**drawn.spec, "width": 400, "config": canvas.CONFIG, "datasets": rows})
    return svg


POINT: Points = {"poison": (np.array([1.0]), np.array([6.0]))}


def test_cells_under_points_reach_half_way_to_their_neighbours() -> None:
    drawn = charts.heat_map(overlaid(POINT))
    assert drawn.data["cells"] == {
        "left": [-0.5, 0.5, 2.0] * 2,
        "right": [0.5, 2.0, 4.0] * 2,
        "low": [4.0] * 3 + [6.0] * 3,
        "high": [6.0] * 3 + [8.0] * 3,
        "value": [0, 1, 2, 3, 4, 5],
    }
    encoding = drawn.spec["layer"][0]["encoding"]
    assert [encoding[axis]["scale"]["domain"] for axis in "xy"] == [[-0.5, 4.0], [4.0, 8.0]]
    falling = charts.heat_map(overlaid(POINT, columns=(3.0, 1, 0)))
    assert falling.data["cells"]["left"][:3] == [4.0, 2.0, 0.5]
    assert falling.spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [-0.5, 4.0]


def test_points_off_the_map_are_not_drawn_and_counted() -> None:
    groups = {"a": (np.array([-0.5, 4.1, np.nan]), np.array([8.0, 5, 5])), "b": (np.array([1.0]), np.array([9.0]))}
    drawn = charts.heat_map(overlaid(groups))
    assert drawn.data["dots"] == {"x": [-0.5], "y": [8.0], "group": ["a"]}
    assert drawn.note == "3 points not drawn: outside the map, or not finite."


def test_a_map_that_points_would_hide_shows_some_of_them_and_says_so() -> None:
    x = np.linspace(0, 3, 2000)
    drawn = charts.heat_map(overlaid({"a": (x, np.full(2000, 6.0))}))
    assert len(drawn.data["dots"]["x"]) == maps.MARKED
    assert drawn.note == "1,500 more points would hide the map."


def test_a_line_over_a_map_goes_where_its_points_go_and_ends_with_the_map() -> None:
    drawn = charts.heat_map(overlaid(lines={"boundary": (np.array([2.0, 1, 2, np.nan]), np.array([-90.0, 6, 90, 0]))}))
    assert drawn.data["lines"] == {"x": [2, 1, 2], "y": [-90, 6, 90], "line": ["boundary"] * 3, "step": [0, 1, 2]}
    for layer in drawn.spec["layer"][1:]:
        assert layer["mark"]["clip"]
        assert layer["encoding"]["order"]["field"] == "step"
        assert layer["encoding"]["y"]["scale"]["domain"] == [4.0, 8.0]


def test_a_large_map_under_points_is_drawn_as_blocks() -> None:
    side = np.arange(300.0)
    drawn = charts.heat_map(HeatMap("", "x", "y", np.ones((300, 300)), side, side, groups=POINT))
    cells = drawn.data["cells"]
    assert len(cells["value"]) == 10_000
    assert (cells["left"][:2], cells["right"][99], cells["high"][-1]) == ([-0.5, 2.5], 299.5, 299.5)
    assert drawn.note == "300 × 300 values, drawn as the means of 100 × 100 blocks."
    assert len(drawn.json) < 200_000


def test_whatever_lies_over_a_map_is_named_and_rimmed() -> None:
    svg = rendered(charts.heat_map(overlaid(POINT, {"boundary": (np.array([0.0, 3]), np.array([5.0, 7]))})))
    for name in ("loss", "poison", "boundary"):
        assert f">{name}</text>" in svg
    assert svg.count("role-legend-entry") == 3
    assert svg.index(f'stroke="{maps.DARK}"') < svg.index('stroke="var(--over)"') < svg.index(f'fill="{maps.FILLS[0]}"')


def test_a_map_with_nothing_over_it_keeps_its_names() -> None:
    assert charts.heat_map(overlaid()).data["cells"]["x"] == ["0", "1", "3"] * 2


def test_numbers_that_repeat_are_written_once() -> None:
    side = np.arange(100.0)
    drawn = charts.heat_map(HeatMap("", "x", "y", np.random.default_rng(0).random((100, 100)), side, side, groups=POINT))
    cells = json.loads(drawn.json)["data"]["cells"]
    assert [cells["left"]["names"][place] for place in cells["left"]["at"]] == drawn.data["cells"]["left"]
    assert cells["value"] == drawn.data["cells"]["value"]


def test_columns_with_like_names_stay_apart() -> None:
    drawn = charts.heat_map(HeatMap("", "x", "y", np.ones((1, 3)), np.array([1.0, 1.0, 1.0]), np.array(["a"])))
    assert len(set(drawn.data["cells"]["x"])) == 3


@pytest.mark.parametrize(
    "figure",
    [
        Curve("", "x", "y", {"a": (np.zeros(0), np.zeros(0))}, log_y=True),
        Histogram("", "x", {"a": np.array([np.nan])}),
        Scatter("", "x", "y", {"a": (np.zeros(0), np.zeros(0))}, marks={"here": 1.0}),
        Scatter("", "x", "y", {}),
        HeatMap("", "x", "y", np.full((1, 2), np.nan), np.arange(2), np.arange(1)),
        HeatMap("", "x", "y", np.full((2, 2), np.nan), np.arange(2), np.arange(2), groups={"a": (np.ones(1), np.ones(1))}),
        HeatMap("", "x", "y", np.zeros((0, 0)), np.zeros(0), np.zeros(0)),
    ],
)
def test_where_there_is_nothing_to_draw_the_page_says_so(record: Record, figure: Figure) -> None:
    page = report.render(replace(record, findings=(replace(record.findings[0], figures=(figure,)),)))
    assert "There is nothing to draw." in page
    assert "vega" not in page


def test_a_chart_carries_no_address_and_cannot_end_its_element(record: Record) -> None:
    for finding in record.findings:
        for figure in finding.figures:
            if type(figure) in charts.DRAWN:
                text = charts.DRAWN[type(figure)](figure).json
                assert "http" not in text
                assert "<" not in text
                assert json.loads(text)["spec"]["width"] == "container"


def test_every_chart_is_drawn_with_its_axes_and_the_names_it_tells_apart(record: Record) -> None:
    figures = [figure for finding in record.findings for figure in finding.figures if type(figure) in charts.DRAWN]
    assert {type(figure) for figure in figures} == set(charts.DRAWN)
    for figure in figures:
        assert isinstance(figure, Curve | HeatMap | Histogram | Scatter)
        groups = figure.series if isinstance(figure, Curve) else figure.groups
        svg = rendered(charts.DRAWN[type(figure)](figure))
        for name in (figure.x, *groups) if len(groups) > 1 else (figure.x,):
            assert f">{name}</text>" in svg


def test_maps_beside_each_other_may_share_their_colours() -> None:
    side = np.array([0.0, 1.0])
    for over in ({}, POINT):
        own, shared = (
            charts.heat_map(HeatMap("", "x", "y", np.eye(2), side, side, groups=over, limits=limits))
            for limits in (None, (0.0, 5.0))
        )
        assert "[0.0, 5.0]" in json.dumps(shared.spec)
        assert "[0.0, 5.0]" not in json.dumps(own.spec)
