"""Figures of membership scores: exact where they claim to be, covering where they give an interval, in the right order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.optimize import brentq
from sklearn.metrics import roc_auc_score

from divulge.arrays import Array
from divulge.solvers.statistics import roc

SLACK = 3
"Standard deviations that a count of seeded samples may be off."

few = st.integers(-5, 5).map(float)
numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
scores = st.lists(few | numbers, min_size=1, max_size=40).map(np.array)
levels = st.integers(0, 10_000).map(lambda part: part / 10_000)
confidences = st.floats(0.5, 0.999)
quick = settings(max_examples=40, deadline=None)


def rate_at(members: Array, non_members: Array, level: float, confidence: float = 0.95) -> roc.Operating:
    found = roc.tpr_at(members, non_members, level, confidence)
    assert found is not None
    return found


def holds(covered: list[bool], share: float) -> bool:
    """Whether an event of at least this chance happened as often as that lets expect."""
    return sum(covered) >= len(covered) * share - SLACK * math.sqrt(len(covered) * share * (1 - share))


@quick
@given(st.integers(1, 300), levels, confidences)
def test_the_interval_of_a_share_is_clopper_and_pearsons(trials: int, part: float, confidence: float) -> None:
    hits = round(part * trials)
    low, high = roc.clopper_pearson(hits, trials, confidence)
    known = stats.binomtest(hits, trials).proportion_ci(confidence, "exact")
    assert low == pytest.approx(known.low, abs=1e-9)
    assert high == pytest.approx(known.high, abs=1e-9)
    assert low <= hits / trials <= high


@quick
@given(st.integers(1, 80), levels, st.floats(0.5, 0.99))
def test_the_interval_of_a_share_covers_it_as_often_as_it_says(trials: int, share: float, confidence: float) -> None:
    hits = np.arange(trials + 1)
    low, high = roc.bounds(hits, trials, confidence)
    chance = stats.binom.pmf(hits, trials, share)
    assert chance[(low <= share) & (share <= high)].sum() >= confidence - 1e-9


@quick
@given(st.integers(1, 100), levels, confidences)
def test_a_surer_interval_is_wider(trials: int, part: float, confidence: float) -> None:
    hits = round(part * trials)
    low, high = roc.clopper_pearson(hits, trials, confidence)
    lower, higher = roc.clopper_pearson(hits, trials, (1 + confidence) / 2)
    assert lower <= low <= high <= higher


@quick
@given(scores, scores)
def test_a_roc_curve_runs_from_nobody_to_everybody_and_takes_all_of_a_tie_or_none(
    members: Array, non_members: Array
) -> None:
    fpr, tpr = roc.roc(members, non_members)
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    assert len(fpr) == len(np.unique([*members, *non_members])) + 1
    value = np.unique([*members, *non_members])[::-1][len(fpr) // 2 - 1]
    assert tpr[len(fpr) // 2] == pytest.approx(np.mean(members >= value))
    assert fpr[len(fpr) // 2] == pytest.approx(np.mean(non_members >= value))


@quick
@given(scores, scores, st.floats(0.001, 1))
def test_the_rate_at_a_level_is_the_best_of_all_thresholds_that_keep_to_it(
    members: Array, non_members: Array, level: float
) -> None:
    at = roc.tpr_at(members, non_members, level)
    if level * len(non_members) < 1 - 1e-6:
        assert at is None
        return
    assert at is not None
    fpr, tpr = roc.roc(members, non_members)
    assert at.tpr == pytest.approx(tpr[fpr <= level + 1e-9].max())
    assert at.fpr <= level + 1e-9
    assert at.tpr == np.mean(members > at.threshold)
    assert at.fpr == np.mean(non_members > at.threshold)
    assert at.interval[0] <= at.tpr <= at.interval[1]
    assert at.fpr_interval[0] <= at.fpr <= at.fpr_interval[1]


@quick
@given(scores, scores, st.floats(0.001, 1), st.floats(0.001, 1))
def test_more_false_alarms_find_as_many_members_or_more(
    members: Array, non_members: Array, one: float, other: float
) -> None:
    ats = [roc.tpr_at(members, non_members, level) for level in sorted((one, other))]
    if ats[0] is not None:
        assert ats[1] is not None
        assert ats[0].tpr <= ats[1].tpr
        assert ats[0].threshold >= ats[1].threshold


@pytest.mark.parametrize(("count", "level", "there"), [(99, 0.01, False), (100, 0.01, True), (999, 0.001, False)])
def test_a_rate_finer_than_one_non_member_is_refused(count: int, level: float, there: bool) -> None:
    assert (roc.tpr_at(np.ones(5), np.zeros(count), level) is not None) == there


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, 999, 4001])
def test_a_level_that_is_a_whole_number_of_non_members_allows_them_all(count: int) -> None:
    """0.29 · 100 is a little less than 29 to the machine."""
    for allowed in range(1, count):
        at = rate_at(np.ones(1), np.arange(float(count)), allowed / count)
        assert at.fpr == allowed / count
        below = rate_at(np.ones(1), np.arange(float(count)), (allowed + 1 - 1e-9) / count)
        assert below.fpr == allowed / count


def test_the_intervals_at_a_level_cover_the_rates_of_their_threshold() -> None:
    rng, sure = np.random.default_rng(0), []
    for _ in range(1500):
        at = rate_at(rng.normal(1, size=40), rng.normal(size=200), 0.01, 0.9)
        tpr, fpr = stats.norm.sf(at.threshold - 1), stats.norm.sf(at.threshold)
        sure.append((at.interval[0] <= tpr <= at.interval[1], at.fpr_interval[0] <= fpr <= at.fpr_interval[1]))
    assert holds([tpr for tpr, _ in sure], 0.9)
    assert holds([fpr for _, fpr in sure], 0.9)


def test_the_ends_of_the_interval_of_an_area_are_as_far_off_as_their_own_deviation_allows() -> None:
    """Newcombe's method 5 asks for the roots of an equation: to all digits."""
    rng = np.random.default_rng(2)
    members, others = rng.normal(1, size=30), rng.normal(size=70)
    area, far = roc.auc(members, others), stats.norm.ppf(0.975)
    for end in roc.auc_interval(members, others):
        spread = 1 + 49 * ((1 - end) / (2 - end) + end / (1 + end))
        assert (area - end) ** 2 == pytest.approx(far**2 * end * (1 - end) * spread / 2100, rel=1e-13)


def test_scores_that_know_nothing_find_as_many_members_as_the_null_says() -> None:
    rng = np.random.default_rng(8)
    ats = [rate_at(rng.normal(size=50), rng.normal(size=100), 0.01) for _ in range(2000)]
    assert ats[0].null == 2 / 101
    assert np.mean([at.tpr for at in ats]) == pytest.approx(2 / 101, rel=0.1)


@quick
@given(scores, scores)
def test_the_area_is_that_under_the_curve(members: Array, non_members: Array) -> None:
    fpr, tpr = roc.roc(members, non_members)
    area = roc.auc(members, non_members)
    assert area == pytest.approx(np.trapezoid(tpr, fpr))
    truth = [True] * len(members) + [False] * len(non_members)
    assert area == pytest.approx(roc_auc_score(truth, np.concatenate([members, non_members])))


@quick
@given(scores, scores, confidences)
def test_the_area_turns_with_the_groups_and_stays_when_scores_are_stretched(
    members: Array, non_members: Array, confidence: float
) -> None:
    area, back = roc.auc(members, non_members), roc.auc(non_members, members)
    assert area + back == pytest.approx(1)
    low, high = roc.auc_interval(members, non_members, confidence)
    assert low <= area <= high
    assert roc.auc_interval(non_members, members, confidence) == pytest.approx((1 - high, 1 - low), abs=1e-9)
    lower, higher = roc.auc_interval(members, non_members, (1 + confidence) / 2)
    assert lower <= low <= high <= higher
    order = np.unique(np.concatenate([members, non_members]))
    ranks = [np.searchsorted(order, group).astype(float) for group in (members, non_members)]
    assert roc.auc(*ranks) == area
    assert roc.advantage(*ranks) == roc.advantage(members, non_members)


def test_a_perfect_area_is_sure_to_be_high_only_with_many_records() -> None:
    ends = [roc.auc_interval(np.ones(count), np.zeros(count))[0] for count in (3, 10, 1000)]
    assert 0.3 < ends[0] < ends[1] < ends[2] < 1
    assert ends[2] > 0.99


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_the_interval_of_the_area_covers_it(shift: float) -> None:
    rng, true = np.random.default_rng(1), stats.norm.cdf(shift / math.sqrt(2))
    ends = [roc.auc_interval(rng.normal(shift, size=30), rng.normal(size=50)) for _ in range(600)]
    assert holds([low <= true <= high for low, high in ends], 0.94)


def test_the_advantage_of_scores_that_know_nothing_is_as_foretold() -> None:
    rng = np.random.default_rng(2)
    for m, n in ((300, 300), (100, 2000)):
        drawn = [roc.advantage(rng.normal(size=m), rng.normal(size=n)) for _ in range(600)]
        assert np.mean(drawn) == pytest.approx(roc.advantage_null(m, n), rel=0.1)


def test_the_interval_of_the_advantage_covers_that_of_the_best_threshold() -> None:
    rng, true = np.random.default_rng(3), 2 * stats.norm.cdf(0.5) - 1
    ends = [roc.advantage_interval(rng.normal(1, size=100), rng.normal(size=100), 0.8) for _ in range(300)]
    assert holds([low <= true <= high for low, high in ends], 0.8)


@quick
@given(scores, scores, confidences)
def test_an_advantage_is_a_share_within_its_interval(members: Array, non_members: Array, confidence: float) -> None:
    best = roc.advantage(members, non_members)
    low, high = roc.advantage_interval(members, non_members, confidence)
    assert 0 <= low <= best <= high <= 1
    assert roc.auc(members, non_members) <= 0.5 + best - best**2 / 2 + 1e-9  # the most that it leaves room for


def test_balanced_accuracy_is_the_mean_of_both_shares_and_its_interval_covers() -> None:
    value, _ = roc.balanced_accuracy(np.array([True, True, False]), np.array([False] * 9 + [True]))
    assert value == pytest.approx((2 / 3 + 0.9) / 2)
    rng = np.random.default_rng(4)
    ends = [roc.balanced_accuracy(rng.random(30) < 0.9, rng.random(60) < 0.05)[1] for _ in range(600)]
    assert holds([low <= 0.925 <= high for low, high in ends], 0.95)


def laplace(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Scores whose likelihood ratio is e at most, and e wherever it is not about even."""
    return rng.laplace(1, size=count), rng.laplace(size=count)


def answers(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Randomised response: the truth with a chance of e / (1 + e)."""
    return (rng.random(count) < math.e / (1 + math.e)).astype(float), (rng.random(count) < 1 / (1 + math.e)).astype(float)


@pytest.mark.parametrize("mechanism", [laplace, answers])
def test_the_bound_on_epsilon_is_seldom_above_what_the_mechanism_has(
    mechanism: Callable[[np.random.Generator, int], tuple[Array, Array]],
) -> None:
    rng = np.random.default_rng(5)
    for count in (20, 2000):  # the more thresholds, the more often one is off
        found = [roc.epsilon_bound(*mechanism(rng, count)).epsilon for _ in range(300)]
        assert holds([epsilon <= 1 for epsilon in found], 0.95)


@pytest.mark.parametrize("mechanism", [laplace, answers])
def test_the_bound_on_epsilon_grows_towards_what_the_mechanism_has(
    mechanism: Callable[[np.random.Generator, int], tuple[Array, Array]],
) -> None:
    rng = np.random.default_rng(6)
    means = [np.mean([roc.epsilon_bound(*mechanism(rng, n)).epsilon for _ in range(10)]) for n in (100, 1000, 30_000)]
    assert means[0] < means[1] < means[2] < 1
    assert means[2] > 0.8


def test_the_bound_on_epsilon_allows_for_delta() -> None:
    """Two Gaussians one deviation apart are (ε, δ)-private by no finite ε at δ = 0."""

    def short(epsilon: float, delta: float) -> float:
        return stats.norm.cdf(0.5 - epsilon) - math.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon) - delta

    rng, delta = np.random.default_rng(7), 0.05
    true = brentq(short, 0, 10, args=(delta,))
    found = [roc.epsilon_bound(rng.normal(1, size=2000), rng.normal(size=2000), delta).epsilon for _ in range(100)]
    assert holds([epsilon <= true for epsilon in found], 0.95)
    assert np.mean(found) > true / 2


@quick
@given(scores, scores, st.floats(0.8, 0.99))
def test_a_surer_bound_on_epsilon_is_lower_and_none_is_negative(
    members: Array, non_members: Array, confidence: float
) -> None:
    bound = roc.epsilon_bound(members, non_members, confidence=confidence)
    assert 0 <= roc.epsilon_bound(members, non_members, confidence=(1 + confidence) / 2).epsilon <= bound.epsilon
    assert roc.epsilon_bound(members, non_members, 0.3, confidence).epsilon <= bound.epsilon
    assert bound.side in (("members", "non-members") if bound.epsilon > 0 else ("",))
    assert bound.tried <= len(non_members)


def test_the_bound_on_epsilon_of_perfect_scores_is_what_their_numbers_allow() -> None:
    fewer, more = (roc.epsilon_bound(np.ones(500), np.zeros(count)) for count in (50, 5000))
    assert (fewer.side, more.side) == ("non-members", "members")
    error = 0.05 / (2 * more.tried)
    none_of_others, all_of_members = 1 - error ** (1 / 5000), error ** (1 / 500)
    assert more.epsilon == pytest.approx(math.log((all_of_members - 1e-5) / none_of_others))


@pytest.mark.parametrize(("count", "epsilon"), [(10, 0.20), (30, 1.4), (100, 2.6), (300, 3.7), (1000, 4.9), (10_000, 7.1)])
def test_perfect_scores_show_as_much_of_epsilon_as_the_documentation_says(count: int, epsilon: float) -> None:
    bound = roc.epsilon_bound(np.ones(count), np.zeros(count))
    assert bound.epsilon == pytest.approx(epsilon, rel=0.02)


def test_ranks_that_are_corrected_for_grow_like_the_logarithm_of_how_many_there_are() -> None:
    few, many, most = (roc.epsilon_bound(np.ones(5), np.zeros(count)).tried for count in (100, 10_000, 1_000_000))
    assert most - many == pytest.approx(many - few, abs=3)
    assert many == 72
