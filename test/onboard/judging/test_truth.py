"""Ground truth: interpolation, cleaning, alignment and mirror images, against SciPy and known motions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.spatial.transform import Rotation, Slerp

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.presentation import quantity
from onboard_estimation.contract.tracks import BodyTrack, clock_parts, mirror
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, so3, vector
from onboard_estimation.judging.alignment import align_heading
from onboard_estimation.judging.handedness import Compared, Evidence, refuse_mirrored
from onboard_estimation.judging.handedness import evidence as evidence_of

Rows = NDArray[np.float64]
START_NS = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def stamps(times_s: Rows) -> NDArray[np.int64]:
    return START_NS + np.round(np.asarray(times_s) * SECOND).astype(np.int64)


def poses(times_s: Rows, velocity: Rows, rate: Rows) -> Rows:
    """A steady motion: constant velocity in the world, constant rate in the body."""
    return np.hstack([times_s[:, None] * velocity, Rotation.from_rotvec(times_s[:, None] * rate).as_quat()])


def angle_between(a: Rows, b: Rows) -> Rows:
    angle: Rows = (Rotation.from_quat(a).inv() * Rotation.from_quat(b)).magnitude()
    return angle


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30))
def test_interpolation_is_that_of_scipy(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(1, 50_000_000, count))
    values = np.hstack([rng.normal(size=(count, 3)), Rotation.random(count, random_state=rng).as_quat()])
    # Both signs of a quaternion are the same rotation.
    values[:, 3:] *= rng.choice([-1.0, 1.0], (count, 1))
    track = BodyTrack.clean("b", START_NS + times, values)
    asked = np.concatenate([times, rng.integers(times[0], times[-1] + 1, 50)])
    got, valid = track.at(START_NS + asked, 0.05)
    assert valid.all()
    np.testing.assert_allclose(got[:, :3], make_interp_spline(times, values[:, :3], k=1)(asked), atol=1e-12)
    assert angle_between(got[:, 3:], Slerp(times, Rotation.from_quat(values[:, 3:]))(asked).as_quat()).max() < 1e-9


def test_gaps_are_not_bridged_and_nothing_is_extrapolated() -> None:
    times = np.concatenate([np.arange(0.0, 1.0, 0.01), np.arange(1.5, 2.0, 0.01)])
    track = BodyTrack.clean("b", stamps(times), times[:, None] * np.ones(3))
    asked = np.array([-0.001, 0.0, 0.5055, 0.99, 0.9901, 1.2, 1.4999, 1.5, 1.99, 1.9901])
    values, valid = track.at(stamps(asked), 0.1)
    assert valid.tolist() == [False, True, True, True, False, False, False, True, True, False]
    assert np.isnan(values[~valid]).all()
    np.testing.assert_allclose(values[valid], asked[valid, None] * np.ones(3), atol=1e-9)
    assert track.at(stamps(asked), 0.52)[1].tolist() == [False] + [True] * 8 + [False]
    # A gap is allowed up to its length, inclusive.
    pair = BodyTrack.clean("b", stamps(np.array([0.0, 0.1])), np.zeros((2, 3)))
    assert [pair.at(stamps(np.array([0.05])), gap_s)[1].tolist() for gap_s in (0.1, 0.0999)] == [[True], [False]]


def test_a_track_without_messages_or_with_one() -> None:
    none = BodyTrack.clean("b", np.empty(0, np.int64), np.empty((0, 3)))
    assert not none.at(stamps(np.arange(3.0)), 1.0)[1].any()
    one = BodyTrack.clean("b", stamps(np.ones(1)), np.array([[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]]))
    values, valid = one.at(stamps(np.arange(3.0)), 1.0)
    assert valid.tolist() == [False, True, False]
    np.testing.assert_allclose(values[1], [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0])


def test_messages_that_are_no_pose_are_left_out_and_counted() -> None:
    times = np.arange(0.0, 10.0, 0.1)
    values = poses(times, np.array([0.1, 0.0, 0.0]), np.array([0.0, 0.0, 0.3]))
    good = BodyTrack.clean("b", stamps(times), values)
    spoilt = values.copy()
    spoilt[10, 0] = np.nan
    spoilt[11, 5] = np.inf
    spoilt[12, 3:] = 0.0
    spoilt[13, 3:] *= 1.5
    spoilt[14, 3:] *= 1.0 + 1e-7  # single precision: fine
    track = BodyTrack.clean("b", stamps(times), spoilt)
    assert track.left_out == 4
    assert len(track.stamps_ns) == len(times) - 4
    # Steady, the motion is the same across the hole.
    asked = stamps(np.linspace(0.0, 9.9, 333))
    np.testing.assert_allclose(track.at(asked, 1.0)[0][:, :3], good.at(asked, 1.0)[0][:, :3], atol=1e-12)


def test_truth_of_a_clock_that_jumped_back_is_not_mixed_and_a_hole_of_minutes_is_no_jump() -> None:
    times = np.arange(0.0, 10.0, 0.01)
    stamped = np.where(times < 7.0, times, times - 5.0)
    track = BodyTrack.clean("b", stamps(stamped), times[:, None] * np.ones(3))
    assert track.left_out == 300
    np.testing.assert_allclose(track.at(stamps(np.array([3.005])), 0.1)[0], 3.005 * np.ones((1, 3)), atol=1e-9)
    holed = np.concatenate([np.arange(0.0, 5.0, 0.1), np.arange(300.0, 310.0, 0.1)])
    assert BodyTrack.clean("b", stamps(holed), np.zeros((len(holed), 3))).left_out == 0


def test_parts_between_jumps_of_the_clock() -> None:
    times = np.arange(0.0, 20.0, 0.05)
    one = np.zeros(len(times), dtype=np.int64)
    assert clock_parts(stamps(times), one).starts == (0,)
    back = clock_parts(stamps(np.where(times < 4.0, times, times - 30.0)), one)
    assert back.starts == (0, 80)
    assert back.longest() == (80, 400)
    assert len(back.jumps) == 1
    assert "-29.950 s" in back.jumps[0]
    ahead = clock_parts(stamps(np.where(times < 16.0, times, times + 3600.0)), one)
    assert ahead.starts == (0, 320)
    assert ahead.longest() == (0, 320)
    # Half a minute is a gap, and a few strays are strays.
    assert clock_parts(stamps(np.where(times < 16.0, times, times + 30.0)), one).starts == (0,)
    strays = times.copy()
    strays[[100, 101, 200]] = -1e6
    assert clock_parts(stamps(strays), one).starts == (0,)


def test_alignment_does_not_absorb_drift() -> None:
    """The start coincides exactly; the least-squares turn is that of SciPy about the start."""
    rng = np.random.default_rng(4)
    walk = np.cumsum(rng.normal(size=(200, 3)), axis=0)
    drifted = walk * 1.05 + np.linspace(0.0, 3.0, 200)[:, None] * np.array([0.0, 0.3, 0.1])
    walk[:7] = np.nan  # no truth yet
    found = align_heading(drifted, walk)
    aligned = found.positions(drifted)
    np.testing.assert_allclose(aligned[7], walk[7], atol=1e-12)
    flat = np.array([1.0, 1.0, 0.0])
    a, b = (drifted - drifted[7])[7:] * flat, (walk - walk[7])[7:] * flat
    by_scipy = Rotation.align_vectors(b, a)[0].as_rotvec()
    np.testing.assert_allclose(by_scipy, [0.0, 0.0, found.heading_rad], atol=1e-9)


@pytest.mark.parametrize("axes", ["x", "y", "z", "xyz"])
def test_mirrored_poses_are_those_of_the_mirror_matrix(axes: str) -> None:
    matrix = np.diag([-1.0 if axis in axes else 1.0 for axis in "xyz"])
    rng = np.random.default_rng(5)
    rotations = Rotation.random(100, random_state=rng)
    values = np.hstack([rng.normal(size=(100, 3)), rotations.as_quat()])
    mirrored = mirror(values, axes)
    np.testing.assert_allclose(mirrored[:, :3], values[:, :3] @ matrix, atol=1e-15)
    # World and body are both seen in the mirror: R' = M R M.
    np.testing.assert_allclose(
        Rotation.from_quat(mirrored[:, 3:]).as_matrix(), matrix @ rotations.as_matrix() @ matrix, atol=1e-12
    )
    np.testing.assert_allclose(mirror(mirrored, axes), values, atol=1e-15)
    np.testing.assert_allclose(mirror(values[:, :3], axes), mirrored[:, :3])
    assert not np.shares_memory(mirrored, values)


POSITION = StateSpace(vector("position", ("x", "y", "z"), "m"))
CHAIN = StateSpace(se2("pose"), angles("joint_angles", ("alpha_1", "alpha_2")))
BODY = StateSpace(vector("position", ("x", "y", "z"), "m"), so3("attitude"))
TIMES = np.arange(0.0, 20.0, 0.05)


def judge(space: StateSpace, means: Rows, truth: Rows) -> str:
    """What is refused; empty where nothing is. Means and truth (K, a) as coordinates of the space."""
    image = {POSITION: flipped, CHAIN: planar_image, BODY: mirror}[space]

    def parts(values: Rows) -> dict[str, Rows]:
        return {block.name: values[:, space.coordinates(block.name)] for block in space.blocks}

    try:
        refuse_mirrored(space, Compared(stamps(TIMES), means, parts(truth)), lambda axes: parts(image(truth, axes)))
    except UserError as error:
        return str(error)
    return ""


def evidence(space: StateSpace, means: Rows, true_parts: dict[str, Rows]) -> dict[str, Evidence]:
    return evidence_of(space, Compared(stamps(TIMES), means, true_parts))


def walk_path(rng: np.random.Generator) -> Rows:
    """A walk that bends one way, feet rising 10 cm a step."""
    heading = 0.15 * TIMES
    speed = np.column_stack([np.cos(heading), np.sin(heading)])
    path = np.cumsum(speed, axis=0) * 0.05
    return np.column_stack([path, 0.05 * (1.0 - np.cos(2.0 * np.pi * TIMES))]) + rng.normal(0.0, 1e-3, (len(TIMES), 3))


def flipped(values: Rows, axes: str) -> Rows:
    return values * np.array([-1.0 if axis in axes else 1.0 for axis in "xyz"])


@pytest.mark.parametrize("axes", ["y", "yz"])
def test_a_mirrored_walk_is_refused_with_both_numbers_and_the_option(axes: str) -> None:
    rng = np.random.default_rng(6)
    path = walk_path(rng)
    turn = Rotation.from_euler("z", 2.0).as_matrix()
    drift = np.linspace(0.0, 0.2, len(TIMES))[:, None] * np.array([1.0, -1.0, 0.5])
    estimate = path @ turn.T + drift + [3.0, 1.0, 0.0]  # of its own origin and heading
    truth = flipped(path, axes)
    said = judge(POSITION, estimate, truth)
    assert f"--mirror-truth {axes}," in said
    assert "RMS as recorded and by" in said
    assert ("left-handed" in said) == (len(axes) == 1)
    assert judge(POSITION, estimate, path) == ""


def test_the_numbers_of_the_refusal() -> None:
    rng = np.random.default_rng(7)
    path = walk_path(rng)
    found = evidence(POSITION, path, {"position": flipped(path, "y")})
    image = evidence(POSITION, path, {"position": path})
    # Brute force over all turns, both paths about their centres.
    a, b = path[:, :2] - path[:, :2].mean(axis=0), flipped(path, "y")[:, :2]
    b = b - b.mean(axis=0)
    angle = np.linspace(0.0, 2.0 * np.pi, 3601)
    turns = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(-1, 2, 2)
    misfits = np.sqrt(np.mean(np.sum((a @ turns.transpose(0, 2, 1) - b) ** 2, axis=2), axis=1))
    assert found["path"].misfit == pytest.approx(misfits.min(), rel=1e-5)
    assert image["path"].misfit < 1e-9
    said = judge(POSITION, path, flipped(path, "y"))
    recorded, mirrored = (quantity(one["path"].misfit, "m") for one in (found, image))
    assert f"by {recorded} RMS as recorded and by {mirrored} mirrored" in said


def test_straight_paths_rest_and_bad_estimates_are_accused_of_nothing() -> None:
    rng = np.random.default_rng(1)

    def accused(estimate: Rows, truth: Rows) -> bool:
        return judge(POSITION, estimate, truth) != ""

    straight = TIMES[:, None] * np.array([0.5, 0.1, 0.0]) + rng.normal(0.0, 0.01, (len(TIMES), 3))
    estimate = straight + np.cumsum(rng.normal(0.0, 0.003, (len(TIMES), 3)), axis=0)
    assert not any(accused(estimate, flipped(straight, axes)) for axes in ("", "y", "z", "yz"))
    path, at_rest = walk_path(rng), rng.normal(0.0, 1e-3, (len(TIMES), 3))
    wandering = np.cumsum(rng.normal(0.0, 0.05, (len(TIMES), 3)), axis=0)
    assert not any(
        accused(*pair) for pair in ((at_rest, -at_rest), (wandering, path), (at_rest, path), (path, at_rest))
    )
    # Bent the other way by 8 % of its length: drift can do that, or a crooked calibration; by 24 % it is evidence.
    along = np.linspace(-1.0, 1.0, len(TIMES))
    slight, strong = (np.column_stack([along, bend * along**2, 0.0 * along]) for bend in (0.15, 0.45))
    assert not accused(slight, flipped(slight, "y"))
    assert accused(strong, flipped(strong, "y"))


def chain_motion(rng: np.random.Generator, turning: float) -> Rows:
    """Straight on average; heading and joints swing by `turning` radians."""
    swing = turning * np.column_stack([np.sin(TIMES), np.cos(1.3 * TIMES), np.sin(0.7 * TIMES)])
    return np.column_stack([0.01 * TIMES, 0.001 * np.sin(TIMES), swing]) + rng.normal(0.0, 1e-4, (len(TIMES), 5))


def planar_image(values: Rows, axes: str) -> Rows:
    return values * (np.array([1.0, -1.0, -1.0, -1.0, -1.0]) if "y" in axes else np.ones(5))


def test_turns_show_a_mirror_image_where_the_path_is_straight() -> None:
    rng = np.random.default_rng(8)
    motion = chain_motion(rng, 0.1)
    truth = planar_image(motion, "y")
    # Started from the mirrored truth: the same place and shape, but turning as the gyros say.
    estimate = motion + (truth[0] - motion[0]) + rng.normal(0.0, 2e-3, motion.shape)
    said = judge(CHAIN, estimate, truth)
    assert "its turns miss the estimate by" in said
    assert "--mirror-truth y," in said
    assert judge(CHAIN, estimate, motion) == ""
    slow = np.column_stack([np.zeros((len(TIMES), 3)), 0.005 * TIMES, 0.004 * TIMES])
    slow = slow + rng.normal(0.0, 1e-4, slow.shape)  # shows over longer spans
    for moved, accused in ((slow, True), (chain_motion(rng, 1e-4), False)):  # those are too small to tell
        image = planar_image(moved, "y")
        assert (judge(CHAIN, moved, image) != "") == accused


def test_a_mirrored_attitude_is_seen_whatever_the_heading() -> None:
    rng = np.random.default_rng(11)
    rotation = Rotation.from_rotvec(np.column_stack([0.3 * np.sin(TIMES), 0.2 * np.cos(TIMES), 0.1 * TIMES]))
    truth = np.hstack([rng.normal(0.0, 1e-3, (len(TIMES), 3)), rotation.as_quat()])
    estimate = truth.copy()
    estimate[:, 3:] = (Rotation.from_euler("z", 1.0) * rotation).as_quat()
    assert judge(BODY, estimate, truth) == ""
    recorded = mirror(truth, "y")
    assert "--mirror-truth y," in judge(BODY, estimate, recorded)


def test_spans_across_holes_of_the_truth_are_not_compared() -> None:
    """In a hole the robot may do anything: only what lies between neighbouring matches counts."""
    rng = np.random.default_rng(12)
    motion = chain_motion(rng, 0.1)
    truth = motion.copy()
    truth[100:300] = np.nan
    found = evidence(CHAIN, motion, {"joint_angles": truth[:, 3:]})
    assert found["turns"].misfit < 1e-9
    assert evidence(CHAIN, motion, {"joint_angles": np.full_like(truth[:, 3:], np.nan)}) == {}


def test_a_filter_that_diverged_is_not_taken_for_a_mirrored_truth() -> None:
    """An image may be less far off than the truth, and yet it fits no better than nothing."""
    rng = np.random.default_rng(8)
    path = walk_path(rng)
    wandering = np.cumsum(rng.normal(size=path.shape), axis=0)
    for far in (1e4 * wandering, wandering / wandering.std() * 3.0 * path.std(), -1.5 * flipped(path, "y") + wandering):
        assert judge(POSITION, far, path) == ""


def test_a_path_that_drifted_is_no_mirror_image_where_turns_are_the_truths() -> None:
    rng = np.random.default_rng(13)
    truth = chain_motion(rng, 0.5) + np.column_stack([np.cos(TIMES), np.sin(TIMES), np.zeros((len(TIMES), 3))])
    drifted = truth + np.column_stack([0.0 * TIMES, 0.2 * TIMES, np.zeros((len(TIMES), 3))])
    assert evidence(CHAIN, drifted, {"pose": truth[:, :3]})["path"].suspicious
    assert judge(CHAIN, drifted, truth) == ""
    assert "--mirror-truth y," in judge(CHAIN, drifted, planar_image(truth, "y"))
