"""Reconstructions are measured against the truth and its nulls, and a claim that the truth contradicts fails."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from divulge import Candidates, TrainingData, Weights, datasets
from divulge.arrays import Array
from divulge.attacks.reconstruction import scoring
from divulge.attacks.reconstruction.claims import Claims
from divulge.attacks.reconstruction.measuring import Measure, Scale
from divulge.contract import Access, Finding, ImagePairs, Scatter, Truth, Verdict
from divulge.solvers.margin import max_margin
from divulge.solvers.shared import similarity
from divulge.storage import fingerprint

SHAPE = (28, 28)
DIGITS = datasets.load("mnist", samples=500, seed=0)
X, Y = np.asarray(DIGITS.X[:40], dtype=float), DIGITS.y[:40]
NON_MEMBERS = np.asarray(DIGITS.X[40:], dtype=float)
RNG = np.random.default_rng(0)
NOISE = RNG.uniform(size=(80, 784))
HELD = Weights(
    ((RNG.normal(size=(30, 784)), np.zeros(30)), (RNG.normal(size=(1, 30)), np.zeros(1))), mean=X.mean(axis=0), shape=SHAPE
)
TRUTH: dict[str, Access] = {"training_data": TrainingData(X, Y, shape=SHAPE)}
WITH_NON_MEMBERS: dict[str, Access] = {**TRUTH, "candidates": Candidates(NON_MEMBERS)}


def scored(found: Array, truth: dict[str, Access] = TRUTH, held: Weights = HELD) -> Finding[TrainingData]:
    return scoring.scored(Finding.leak(TrainingData(found), "Images were found."), held, Truth(truth))


def gallery_of(finding: Finding[TrainingData]) -> ImagePairs:
    figure = finding.figures[0]
    assert isinstance(figure, ImagePairs)
    return figure


def scatter_of(finding: Finding[TrainingData]) -> Scatter:
    figure = finding.figures[1]
    assert isinstance(figure, Scatter)
    return figure


def value(finding: Finding[TrainingData], name: str) -> float:
    return finding.scores[name].value


def test_exact_images_count_by_every_measure_and_above_every_null() -> None:
    finding = scored(np.concatenate([NOISE, X[::-1]]), WITH_NON_MEMBERS)
    assert finding.verdict is Verdict.LEAK
    for name in (scoring.HEADLINE, scoring.FAIRLY, scoring.PIXELS, scoring.PUBLISHED, scoring.AFFINE):
        assert value(finding, name) == 40
        assert finding.scores[name].unit == "of 40"
        assert finding.scores[name].null < 40
    assert value(finding, "best NCC of a pair") == pytest.approx(1)
    assert value(finding, "median NCC of the pairs") == pytest.approx(1)
    assert value(finding, "median rank among non-members") == 1
    assert next(iter(finding.scores)) == scoring.HEADLINE


def test_the_null_is_the_largest_and_says_which_it_was() -> None:
    score = scored(X, WITH_NON_MEMBERS).scores[scoring.FAIRLY]
    assert score.null_of.startswith(scoring.NON_MEMBERS)
    for other in (scoring.MEAN, scoring.SPAN, scoring.FIRST_LAYER):
        assert re.search(rf"{other} \d+[,)]", score.null_of)
    rng = np.random.default_rng(1)
    drawn = [similarity.ncc(NON_MEMBERS[rng.choice(460, 40, replace=False)], X) for _ in range(50)]
    counts = [(alike[similarity.matched(alike)] > 0.8).sum() for alike in drawn]
    assert min(counts) <= score.null <= max(counts)


def test_one_reconstruction_serves_one_image() -> None:
    twins = np.concatenate([X[:1], 0.99 * X[:1] + 0.01 * X[1:2], X[1:]])
    finding = scored(X[:1], {"training_data": TrainingData(twins, shape=SHAPE)})
    assert value(finding, scoring.HEADLINE) == 1
    assert any(note.startswith("1 reconstructions stand against 41") for note in finding.notes)


def test_a_claim_of_noise_fails_and_is_still_told() -> None:
    finding = scored(NOISE, WITH_NON_MEMBERS)
    assert finding.verdict is Verdict.FAILED
    assert "contradicts what the attack claimed" in finding.summary
    assert "0 images at NCC > 0.8" in finding.summary
    assert finding.notes[-1] == "Before the truth was looked at, the attack said: Images were found."
    assert finding.loot is not None


def test_the_mean_image_is_no_reconstruction() -> None:
    finding = scored(np.tile(X.mean(axis=0), (40, 1)) + 1e-3 * NOISE[:40])
    assert finding.verdict is Verdict.FAILED
    assert value(finding, scoring.PUBLISHED) <= finding.scores[scoring.PUBLISHED].null + 1


def test_other_digits_are_no_reconstruction_though_they_resemble_some() -> None:
    finding = scored(NON_MEMBERS[:200], {**TRUTH, "candidates": Candidates(NON_MEMBERS[200:])})
    assert value(finding, scoring.FAIRLY) > 5
    assert finding.scores[scoring.FAIRLY].null > 5


def test_reconstructions_among_much_noise_stand_where_handing_in_other_digits_hits_as_many_images() -> None:
    rng = np.random.default_rng(1)
    found = np.concatenate([X[:10] + 0.18 * rng.normal(size=(10, 784)), rng.uniform(size=(450, 784))])
    finding = scored(found, WITH_NON_MEMBERS)
    score = finding.scores[scoring.FAIRLY]
    assert 8 <= score.value <= score.null
    assert finding.verdict is Verdict.LEAK
    assert any("0 of 40 non-members at NCC > 0.9" in note for note in finding.notes)


UNCLAIMED = Finding(Verdict.NONE_FOUND, "Nothing is sure.", TrainingData(X), power="Little.")


def test_what_was_not_claimed_is_a_leak_where_the_truth_shows_it() -> None:
    judged = scoring.scored(UNCLAIMED, HELD, Truth(WITH_NON_MEMBERS))
    assert judged.verdict is Verdict.LEAK
    assert judged.power == ""
    said = "The truth shows training images in what the attack could not claim: 40 of 40 are there at NCC > 0.99, and of"
    assert judged.summary.startswith(said)
    assert judged.notes[-1] == "Before the truth was looked at, the attack said: Nothing is sure."
    judged = scoring.scored(replace(UNCLAIMED, loot=TrainingData(NOISE)), HELD, Truth(WITH_NON_MEMBERS))
    assert judged.verdict is Verdict.NONE_FOUND
    assert judged.summary == UNCLAIMED.summary


def test_a_picture_or_two_that_resemble_training_images_are_no_leak_and_are_told() -> None:
    few = TrainingData(np.concatenate([X[:2] + 0.09 * NOISE[:2], NOISE[2:40]]))
    judged = scoring.scored(replace(UNCLAIMED, loot=few), HELD, Truth(TRUTH))
    assert value(judged, scoring.FAIRLY) > judged.scores[scoring.FAIRLY].null
    assert judged.verdict is Verdict.NONE_FOUND
    assert "more than a useless attack has, and not beyond doubt: " in judged.summary


@pytest.mark.parametrize("known", [{}, {"candidates": Candidates(NON_MEMBERS)}])
def test_without_the_truth_nothing_changes(known: dict[str, Access]) -> None:
    finding = Finding.leak(TrainingData(X), "Images were found.")
    assert scoring.scored(finding, HELD, Truth(known)) is finding
    empty: Finding[TrainingData] = Finding.failed("Nothing.")
    assert scoring.scored(empty, HELD, Truth(known)) is empty


def test_points_of_another_width_are_not_scored() -> None:
    finding = scored(X[:, :100])
    assert set(finding.scores) == {"KKT residual"}
    assert finding.verdict is Verdict.LEAK
    assert finding.notes[-1] == "Not scored: the reconstructions have 100 features and the training data 784."


def test_candidates_of_another_width_and_training_points_among_them_are_no_non_members() -> None:
    assert "median rank among non-members" not in scored(X, {**TRUTH, "candidates": Candidates(NON_MEMBERS[:, :9])}).scores
    assert "median rank among non-members" not in scored(X, {**TRUTH, "candidates": Candidates(X[::-1])}).scores
    mixed = scored(X, {**TRUTH, "candidates": Candidates(np.concatenate([X, NON_MEMBERS]))})
    rank = mixed.scores["median rank among non-members"]
    assert rank.unit == "of 421"  # of 460, 40 are matched with the reconstructions in the place of the images
    assert rank.value == 1
    assert 1 < rank.null < 210


def test_points_that_are_no_pictures_are_scored_without_pictures() -> None:
    held = replace(HELD, shape=None)
    finding = scored(X, {"training_data": TrainingData(X)}, held)
    assert value(finding, scoring.PIXELS) == 40
    assert scoring.PUBLISHED not in finding.scores
    (figure,) = finding.figures
    assert isinstance(figure, Scatter)
    assert figure.y.startswith("NCC")
    flat = scored(X, {"training_data": TrainingData(X, shape=(784, 1))}, held)
    assert scoring.PUBLISHED not in flat.scores


def test_colours_and_other_units_are_scored_alike() -> None:
    rng = np.random.default_rng(1)
    pictures = rng.uniform(size=(12, 192))
    held = Weights(((rng.normal(size=(5, 192)), np.zeros(5)), (np.ones((1, 5)), np.zeros(1))), shape=(8, 8, 3))
    found = np.concatenate([pictures[:9] + 0.05 * rng.normal(size=(9, 192)), rng.uniform(size=(9, 192))])
    plain = scored(found, {"training_data": TrainingData(pictures)}, held)
    bytes_ = scored(255 * found, {"training_data": TrainingData(255 * pictures)}, held)
    assert {name: score.value for name, score in plain.scores.items()} == pytest.approx(
        {name: score.value for name, score in bytes_.scores.items()}, abs=1e-3
    )
    assert value(plain, scoring.HEADLINE) == 9
    gallery = gallery_of(bytes_)
    assert gallery.left.shape == (12, 8, 8, 3)
    assert gallery.left.max() <= 1


def test_the_gallery_shows_the_best_pairs_first() -> None:
    faint = X * np.linspace(1, 0.2, 40)[:, None] + 0.1 * NOISE[:40] * np.linspace(0, 1, 40)[:, None]
    gallery = gallery_of(scored(3 * faint - 1))
    assert gallery.left.shape == gallery.right.shape == (40, *SHAPE)
    assert gallery.left[0] == pytest.approx(X[0].reshape(SHAPE), abs=1e-6)
    assert gallery.right.min() >= 0
    assert gallery.right.max() <= 1
    assert gallery.captions[0] == "NCC 1.00, SSIM 1.00"
    said = [re.match(r"NCC ([\d.]+), SSIM -?[\d.]+$", caption) for caption in gallery.captions]
    likeness = [float(one[1]) for one in said if one is not None]
    assert len(likeness) == 40
    assert likeness == sorted(likeness, reverse=True)


def test_similarity_is_drawn_against_the_output_beside_the_mean_image() -> None:
    figure = scatter_of(scored(X))
    assert figure.x == "output of the network"
    outputs, heights = figure.groups["with its reconstruction"]
    assert outputs == pytest.approx(HELD.predict(X)[:, 0], rel=1e-4)
    assert heights == pytest.approx(1, abs=1e-3)
    mean = similarity.ssim(similarity.scaled(X.mean(axis=0)[None]), X, SHAPE)
    assert figure.groups["with the mean image"][1] == pytest.approx(mean, abs=1e-4)


def test_several_outputs_are_drawn_by_their_margin() -> None:
    rng = np.random.default_rng(1)
    held = Weights(((rng.normal(size=(30, 784)), np.zeros(30)), (rng.normal(size=(10, 30)), np.zeros(10))), shape=SHAPE)
    outputs = held.predict(X)
    true = [row[label] - np.delete(row, label).max() for row, label in zip(outputs, Y, strict=True)]
    figure = scatter_of(scored(X, held=held))
    assert figure.x == "margin of the true class"
    assert figure.groups["with its reconstruction"][0] == pytest.approx(true, rel=1e-4, abs=1e-3)
    named = scatter_of(scored(X, {"training_data": TrainingData(X, Y.astype(str), shape=SHAPE)}, held))
    assert named.x == "margin of the class named"
    assert (named.groups["with its reconstruction"][0] >= 0).all()


def test_the_kkt_residual_is_small_at_the_points_of_training_and_not_at_others() -> None:
    points, sides = X[:12], np.where(np.arange(12) % 2, "odd", "even")
    layers = max_margin.train(
        max_margin.initial(np.random.default_rng(0), [784, 60, 1]), points, np.where(sides == "odd", 1, -1)
    ).layers
    held = Weights(tuple(layers), shape=SHAPE)
    truth = {"training_data": TrainingData(points, sides, shape=SHAPE), "candidates": Candidates(X[12:])}
    finding = scored(points, truth, held)
    score = finding.scores["KKT residual"]
    assert score.value < 0.2 < 0.6 < score.null
    assert "non-members" in score.null_of
    alone = scored(points, {"training_data": truth["training_data"]}, held).scores["KKT residual"]
    assert (alone.value, alone.null) == (score.value, 1.0)


def test_the_residual_is_known_even_where_nothing_was_won() -> None:
    finding = scoring.scored(Finding.none_found("Nothing.", power="Much."), HELD, Truth(TRUTH))
    assert 0 < finding.scores["KKT residual"].value <= 1


def test_scoring_twice_gives_the_same() -> None:
    first, second = (scored(np.concatenate([X[:20], NOISE]), WITH_NON_MEMBERS) for _ in range(2))
    assert fingerprint(first) == fingerprint(second)


@pytest.mark.parametrize("count", [1, 3])
def test_a_few_exact_images_are_not_mistaken_for_points_of_their_own_span(count: int) -> None:
    finding = scored(X[:count], WITH_NON_MEMBERS)
    assert finding.verdict is Verdict.LEAK
    assert value(finding, scoring.PIXELS) == count
    assert finding.scores[scoring.PIXELS].null == 0


def like(ncc: float, count: int = 6) -> tuple[Array, Array]:
    """Points of 50 features, and others whose NCC with them is this."""
    rng = np.random.default_rng(0)
    points, other = similarity.standard(rng.normal(size=(count, 50))), rng.normal(size=(count, 50))
    other = similarity.standard(other - (similarity.standard(other) * points).sum(axis=1, keepdims=True) * points)
    other = similarity.standard(other - (other * points).sum(axis=1, keepdims=True) * points)
    return points, ncc * points + np.sqrt(1 - ncc**2) * other


@pytest.mark.parametrize(("ncc", "good", "fair"), [(0.91, 6, 6), (0.89, 0, 6), (0.81, 0, 6), (0.79, 0, 0)])
def test_images_count_from_an_ncc_of_09_and_of_08(ncc: float, good: int, fair: int) -> None:
    points, found = like(ncc)
    held = Weights(((np.ones((2, 50)), np.zeros(2)), (np.ones((1, 2)), np.zeros(1))))
    finding = scored(found, {"training_data": TrainingData(points)}, held)
    assert finding.scores["images at NCC > 0.9"].value == good
    assert finding.scores["images at NCC > 0.8"].value == fair


@pytest.mark.parametrize(("error", "exact"), [(0.049, 40), (0.051, 0)])
def test_an_image_is_exact_that_is_off_by_a_twentieth_of_its_norm(error: float, exact: int) -> None:
    assert value(scored((1 + error) * X), "pixel-exact images") == exact


def test_structural_similarity_counts_from_04_as_published_and_from_06_after_a_fit() -> None:
    noise = np.random.default_rng(3).normal(size=X.shape) * np.geomspace(1e-3, 0.3, 40)[:, None]
    finding = scored(X + noise)
    seen = similarity.ssim(similarity.voted(X + noise, X), X, SHAPE)
    alone = similarity.ssim(similarity.scaled(X.mean(axis=0)[None]), X, SHAPE)
    assert value(finding, "images at SSIM > 0.4") == np.sum((seen > 0.4) & (seen > alone))
    fitted = similarity.affine_ssim(X + noise, X, X.mean(axis=0), SHAPE)
    assert value(finding, "images at affine SSIM > 0.6") == np.sum(fitted > 0.6)
    assert 5 < np.sum(seen > 0.4) < 35
    assert 5 < np.sum(fitted > 0.6) < 35


def measure(hits: int) -> Measure:
    """Of as many training images as that, and noise."""
    scale = Scale.of(TrainingData(X, shape=SHAPE), HELD)
    return scale.measure(np.concatenate([X[:hits], NOISE[hits:40]]))


@pytest.mark.parametrize(("hits", "null", "known", "preferred"), [
    (10, 0, 460, True), (3, 0, 460, False), (4, 0, 460, True), (10, 10, 460, False), (10, 0, 40, False), (40, 0, 40, True),
])  # fmt: skip
def test_members_are_preferred_where_chance_hits_so_many_of_them_once_in_thousands(
    hits: int, null: int, known: int, preferred: bool
) -> None:
    """Beside as many non-members as are known, and never where a useless attack hits as many."""
    others = NON_MEMBERS[:known].astype(np.float32)
    told = scoring._preferred(measure(hits), {scoring.MEAN: measure(null)}, X.astype(np.float32), others)
    assert (told is not None) is preferred


def test_pictures_of_one_thing_count_once() -> None:
    """Ten copies of a training image that come out are one image, and nobody's where a non-member is of the same thing."""
    copies = np.concatenate([np.repeat(X[:1], 10, axis=0), X[1:]]).astype(np.float32)
    scale = Scale.of(TrainingData(copies, shape=SHAPE), HELD)
    nulls = {scoring.MEAN: scale.measure(NOISE[:40])}
    assert scoring._preferred(scale.measure(X[:1]), nulls, copies, NON_MEMBERS.astype(np.float32)) is None
    several = scale.measure(X[:5])
    assert scoring._preferred(several, nulls, copies, NON_MEMBERS.astype(np.float32)) is not None
    known = np.concatenate([NON_MEMBERS, X[:5] + 0.02 * NOISE[:5]]).astype(np.float32)
    assert scoring._preferred(several, nulls, copies, known) is None


def test_images_nearest_to_what_came_out_are_training_images_whatever_the_level() -> None:
    """Blurred beyond every level, and nearer to training images than to hundreds of others all the same."""
    blurred = X[:12] + 1.2 * NOISE[:12]
    scale = Scale.of(TrainingData(X, shape=SHAPE), HELD)
    mine = scale.measure(blurred)
    assert mine.ncc.max() < scoring.FAIR
    told = scoring._preferred(
        mine, {scoring.MEAN: scale.measure(NOISE[:40])}, scale.originals, NON_MEMBERS.astype(np.float32)
    )
    assert told is not None
    strangers = scale.measure(NON_MEMBERS[:12] + 1.2 * NOISE[:12])
    others = NON_MEMBERS[12:].astype(np.float32)
    assert scoring._preferred(strangers, {scoring.MEAN: scale.measure(NOISE[:40])}, scale.originals, others) is None


WRONG = Claims.of(0.9, np.full(30, 0.95), np.zeros(30, bool), np.zeros((0, 784)))


def test_a_claim_that_is_hardly_ever_right_has_failed_though_one_is() -> None:
    """Strangers' digits were claimed, of which one happens to be like a training image: more than a useless attack has."""
    loot = TrainingData(np.concatenate([X[:1], NON_MEMBERS[:29]]), shape=SHAPE)
    finding = Finding.leak(loot, "30 training images come out.", evidence=WRONG)
    for truth in (TRUTH, {**TRUTH, "candidates": Candidates(NON_MEMBERS[29:])}):
        judged = scoring.scored(finding, HELD, Truth(truth))
        assert judged.scores[scoring.CLAIMS].value >= 1
        assert judged.verdict is Verdict.FAILED
        assert judged.summary.startswith("The truth contradicts what the attack claimed: ")
    blurred = X[:20] + 0.1 * NOISE[:20]  # like training images, and none to the pixel
    for hits, verdict in ((20, Verdict.LEAK), (10, Verdict.FAILED)):
        loot = TrainingData(np.concatenate([blurred[:hits], NOISE[: 30 - hits]]), shape=SHAPE)
        judged = scoring.scored(replace(finding, loot=loot), HELD, Truth(TRUTH))  # with no non-members to compare with
        assert (judged.scores[scoring.CLAIMS].value, judged.scores[scoring.PIXELS].value) == (hits, 0)
        assert judged.verdict is verdict
    pairs = np.concatenate([X[:20], X[:20] + 0.05 * NOISE[:20]])  # whose every picture is like another of them
    loot = TrainingData(np.concatenate([blurred, NOISE[:10]]), shape=SHAPE)
    judged = scoring.scored(replace(finding, loot=loot), HELD, Truth({"training_data": TrainingData(pairs, shape=SHAPE)}))
    assert (judged.scores[scoring.CLAIMS].value, judged.verdict) == (20, Verdict.FAILED)
    half = replace(finding, loot=TrainingData(np.concatenate([X[:15], NON_MEMBERS[:15]]), shape=SHAPE))
    judged = scoring.scored(half, HELD, Truth({**TRUTH, "candidates": Candidates(NON_MEMBERS[15:])}))
    assert judged.verdict is Verdict.LEAK
    right = judged.scores[scoring.CLAIMS].value
    assert judged.summary == f"30 training images come out. By the truth {right:.0f} of the 30 are right."


def test_wrong_claims_beside_right_candidates_say_which_is_which() -> None:
    claims = Claims.of(0.9, np.full(5, 0.95), np.zeros(5, bool), X)
    finding = Finding.leak(TrainingData(NOISE[:5], shape=SHAPE), "5 training images come out.", evidence=claims)
    judged = scoring.scored(finding, HELD, Truth(WITH_NON_MEMBERS))
    assert judged.verdict is Verdict.FAILED
    assert "contradicts what the attack claimed: 0 images at NCC > 0.9" in judged.summary
    assert "in what it handed over without a claim: 40 of 40 are there" in judged.summary


@pytest.mark.parametrize(("members", "known"), [(150, 20), (150, 150), (40, 300)])
def test_pictures_of_strangers_are_no_leak_however_many_non_members_are_known(members: int, known: int) -> None:
    """What was handed over was never seen in training, and resembles what was as much as any other digit."""
    digits = np.asarray(DIGITS.X, dtype=float).reshape(len(DIGITS.X), -1)
    for seed in range(4):
        places = np.random.default_rng(seed).permutation(len(digits))
        trained, others, strangers = np.split(digits[places[: members + known + 120]], [members, members + known])
        truth = {"training_data": TrainingData(trained, shape=SHAPE), "candidates": Candidates(others)}
        assert (
            scoring.scored(replace(UNCLAIMED, loot=TrainingData(strangers)), HELD, Truth(truth)).verdict is not Verdict.LEAK
        )


def test_without_non_members_only_what_is_there_to_the_pixel_is_beyond_doubt() -> None:
    """Pictures of one kind resemble each other, and to the pixel nobody draws them; nine may be luck."""
    truth = Truth({"training_data": TrainingData(X, Y, shape=SHAPE)})
    judged = scoring.scored(UNCLAIMED, HELD, truth)
    assert judged.verdict is Verdict.LEAK
    assert "40 of 40 are there to the pixel, where a useless attack has 0" in judged.summary
    for loot in (X[:9], X + 0.1 * NOISE[:40]):
        judged = scoring.scored(replace(UNCLAIMED, loot=TrainingData(loot)), HELD, truth)
        assert judged.verdict is Verdict.NONE_FOUND
        assert "more than a useless attack has, and not beyond doubt: " in judged.summary


def test_the_gallery_shows_as_many_pairs_as_the_paper() -> None:
    many = np.asarray(DIGITS.X[:60], dtype=float)
    gallery = gallery_of(scored(many, {"training_data": TrainingData(many, shape=SHAPE)}))
    assert len(gallery.left) == 45


@pytest.mark.parametrize("count", [9, 10])
def test_random_points_of_the_span_lie_between_ten_reconstructions_and_of_fewer_between_weights(count: int) -> None:
    """Between fewer, one is likely to be a reconstruction again, and the null as good as the attack."""
    scale = Scale.of(TrainingData(X, Y, shape=SHAPE), HELD)
    useless = {name: points for name, points, _ in scoring._useless(X[:count], HELD, scale, None, np.random.default_rng(0))}
    drawn = useless[scoring.SPAN] - scale.mean
    between = {9: HELD.layers[0][0], 10: X[:count] - scale.mean}[count]
    basis = np.linalg.qr(between.T)[0]
    assert np.linalg.norm(drawn - drawn @ basis @ basis.T) < 1e-4 * np.linalg.norm(drawn)


def claiming(found: Array, confidence: float, handed_over: Array) -> Finding[TrainingData]:
    """What is scored where so much is claimed, each with this confidence, and the rest handed over."""
    evidence = Claims.of(0.9, np.full(len(found), confidence), np.zeros(len(found), bool), handed_over)
    finding = Finding.leak(TrainingData(found), "Images were found.", evidence=evidence)
    return scoring.scored(finding, HELD, Truth(WITH_NON_MEMBERS))


def test_claims_are_counted_apart_from_what_is_handed_over() -> None:
    finding = claiming(np.concatenate([X[:8], NOISE[:2]]), 0.9, X[8:28])
    right = finding.scores[scoring.CLAIMS]
    assert (right.value, right.unit) == (8, "of 10 claimed")
    assert right.interval is not None
    assert right.interval[0] == pytest.approx(10 * 0.4439, abs=0.01)  # Clopper and Pearson
    assert right.null < 3
    assert value(finding, scoring.HEADLINE) == 28
    assert "8 of the 10 claimed are right at NCC > 0.9; 9.0 were expected." in finding.notes


def test_claims_that_are_wrong_fail_whatever_is_handed_over() -> None:
    finding = claiming(NOISE[:10], 0.9, X)
    assert finding.verdict is Verdict.FAILED
    assert finding.scores[scoring.CLAIMS].value == 0
    assert any("which the truth contradicts" in note for note in finding.notes)
