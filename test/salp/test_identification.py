"""Identification of the chain's drag: motion from motion capture, flips, coefficients, intervals, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import command, messages_of, refusal, spoilt, write
from salp_recordings import simulate
from scipy.linalg import expm, logm

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.campaigns.identification import identify_recordings
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.filtering.planar import planar_pose, planar_poses
from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.model.gaits import FORWARD, GAITS, Gait
from salp_estimation.robot import ROBOT
from salp_estimation.simulation.simulator import IdealScenario
from salp_estimation.training import identification
from salp_estimation.training.identification import Samples, fit_drag
from salp_estimation.training.identified import expected_half_widths, identify
from salp_estimation.training.motion import Motion, flipped_frames, motion_from_tracks
from salp_estimation.training.runs import Run, identification_channels, run_from_recording

CHAIN = ChainConfiguration()
MODEL = CHAIN.build()


@cache
def recording(
    gait: Gait = FORWARD, duration_s: float = 18.0, seed: int = 1, scenario: IdealScenario | None = None
) -> Recording:
    """A simulated run; not to be changed."""
    return simulate(CHAIN, gait, duration_s, np.random.default_rng(seed), scenario)


def tracks(one: Recording) -> dict[str, BodyTrack]:
    return {
        name: BodyTrack.clean(name, series.stamps_ns, series.values)
        for name, series in zip(CHAIN.link_names, one.truth, strict=True)
    }


def links_at(time_s: np.ndarray) -> np.ndarray:
    """Link poses (K, 3, 3) of a smooth made-up motion whose velocities are known, see `velocity_at`."""
    return MODEL.link_poses(state_at(time_s))


def state_at(time_s: np.ndarray) -> np.ndarray:
    w = 2.0 * np.pi / 6.0
    shape = [0.3 * np.sin(w * time_s), 0.25 * np.cos(w * time_s) - 0.1]
    return np.column_stack([0.05 * np.sin(w * time_s), 0.01 * time_s, 2.9 + 0.1 * time_s, *shape])


def velocity_at(time_s: float) -> np.ndarray:
    """Body velocity by the matrix logarithm of a tiny motion, and joint rates by differences."""

    def matrix(state: np.ndarray) -> np.ndarray:
        cosine, sine = np.cos(state[2]), np.sin(state[2])
        return np.array([[cosine, -sine, state[0]], [sine, cosine, state[1]], [0.0, 0.0, 1.0]])

    step = 1e-4
    before, after = state_at(np.array([time_s - step, time_s + step]))
    twist = np.real(logm(np.linalg.inv(matrix(before)) @ matrix(after))) / (2.0 * step)
    assert np.allclose(expm(2.0 * step * twist), np.linalg.inv(matrix(before)) @ matrix(after))
    return np.array([twist[0, 2], twist[1, 2], twist[1, 0], *(after[3:] - before[3:]) / (2.0 * step)])


def stamps(duration_s: float, rate_hz: float) -> np.ndarray:
    return np.round(np.arange(int(duration_s * rate_hz)) * NANOSECONDS_PER_SECOND / rate_hz).astype(np.int64)


def motion_of(at_ns: np.ndarray, poses: np.ndarray) -> Motion:
    return motion_of_each([at_ns] * 3, [poses[:, i] for i in range(3)])


def motion_of_each(stamps_ns: list[np.ndarray], poses: list[np.ndarray]) -> Motion:
    measured = zip(CHAIN.link_names, stamps_ns, poses, strict=True)
    return motion_from_tracks(
        CHAIN, {name: BodyTrack(name, at, planar_poses(one[:, :2], one[:, 2])) for name, at, one in measured}
    )


def test_motion_without_noise_is_the_derivative() -> None:
    """Against matrix logarithms; the stamps are those of a motion capture with jitter, each link with its own."""
    rng, rate_hz = np.random.default_rng(3), 120.0
    at_ns, poses = [], []
    for link in range(3):
        at = stamps(14.0, rate_hz) + rng.integers(-500_000, 500_000, int(14.0 * rate_hz))
        at_ns.append(at)
        poses.append(links_at(at / NANOSECONDS_PER_SECOND)[:, link])
    motion = motion_of_each(at_ns, poses)
    assert motion.rate_hz == pytest.approx(rate_hz, rel=0.01)
    assert motion.duration_s == pytest.approx(13.0, abs=0.1)  # half a second at both ends is no good
    for k in np.flatnonzero(motion.valid)[::101]:
        time_s = motion.stamps_ns[k] / NANOSECONDS_PER_SECOND
        np.testing.assert_allclose(motion.rates[k], velocity_at(time_s), atol=2e-4)
        expected = state_at(np.array([time_s]))[0]
        np.testing.assert_allclose(np.delete(motion.states[k], 2), np.delete(expected, 2), atol=1e-4)
        assert np.cos(motion.states[k, 2] - expected[2]) == pytest.approx(1.0, abs=1e-9)


def flip(poses: np.ndarray, start: int, stop: int, link: int, kind: str) -> None:
    if kind == "swapped":
        poses[start:stop, [link, (link + 1) % 3]] = poses[start:stop, [(link + 1) % 3, link]]
    else:
        poses[start:stop, link, :2] += [0.02, -0.015]


@pytest.mark.parametrize("kind", ["swapped", "marker"])
def test_flips_are_found_left_out_and_counted(kind: str) -> None:
    """Short ones, a long one, one in the beginning: every frame of them, and hardly another; the rates stay right."""
    at_ns = stamps(24.0, 120.0)
    rng = np.random.default_rng(5)
    poses = links_at(at_ns / NANOSECONDS_PER_SECOND)
    poses[..., :2] += rng.normal(0.0, 1e-4, poses[..., :2].shape)
    poses[..., 2] += rng.normal(0.0, np.deg2rad(0.02), poses.shape[:2])
    wrong = np.zeros(poses.shape[:2], dtype=bool)
    for start, stop, link in ((0, 4, 0), (300, 301, 1), (700, 730, 2), (1200, 1560, 0), (2000, 2003, 1)):
        flip(poses, start, stop, link, kind)
        wrong[start:stop, link] = True
        if kind == "swapped":
            wrong[start:stop, (link + 1) % 3] = True
    for link in range(3):
        found = flipped_frames(at_ns, poses[:, link])
        assert found[wrong[:, link]].all()
        assert found[~wrong[:, link]].sum() <= 1
    motion = motion_of(at_ns, poses)
    assert sum(motion.left_out.values()) >= wrong.sum()
    for k in np.flatnonzero(motion.valid)[::67]:
        expected = velocity_at(motion.stamps_ns[k] / NANOSECONDS_PER_SECOND)
        np.testing.assert_allclose(motion.rates[k], expected, atol=5e-3)


# --- The regression -----------------------------------------------------------------------------------------------


# --- The fit ------------------------------------------------------------------------------------------------------

GAIT_NAMES = tuple(GAITS)
CONFIGURATION = SalpConfiguration()


@cache
def run(name: str, seed: int = 1, duration_s: float = 18.0) -> Run:
    one = recording(GAITS[name], duration_s, seed)
    return run_from_recording(CONFIGURATION, from_simulator(one, CHAIN.link_names), name, 2.0)


@cache
def five(seed: int = 1) -> tuple[Samples, ...]:
    return tuple(run(name, 10 * seed + number).samples() for number, name in enumerate(GAIT_NAMES))


def wrong_chain() -> ChainConfiguration:
    """A guess of somebody who has not identified: every wheel and joint alike."""
    return replace(
        CHAIN,
        wheel_drag_xx=(CHAIN.wheel_drag_xx[0],) * 3,
        wheel_drag_yy=(50.0,) * 3,
        wheel_drag_tt=(0.4,) * 3,
        joint_drag=(0.05, 0.05),
    )


def test_five_gaits_give_every_ratio_within_2_percent() -> None:
    """From a wrong start; 18 s of each gait. Joint drags, which hardly resist, come within 5 %."""
    fit = fit_drag(wrong_chain().build(), five())
    true = fit.terms.coefficients(MODEL)
    error = np.abs(fit.values / true - 1.0)
    assert error[0] == 0.0
    assert error[:9].max() < 0.02
    assert error.max() < 0.05
    assert not fit.poor[:9].any()
    assert 10.0 < fit.condition < 1e4
    assert abs(fit.delay_s) < 1e-3


def noisy_samples(name: str, rng: np.random.Generator) -> Samples:
    """One simulated motion without noise, measured anew: 0.1 mm and 0.02 deg at 120 Hz."""
    quiet = replace(IdealScenario(), truth_position_stddev_m=0.0, truth_heading_stddev_rad=0.0)
    one = recording(GAITS[name], 18.0, 1, quiet)
    loaded = from_simulator(one, CHAIN.link_names)
    measured = {}
    for link, track in loaded.tracks.items():
        poses = planar_pose(track.values)
        poses[:, :2] += rng.normal(0.0, 1e-4, (len(poses), 2))
        poses[:, 2] += rng.normal(0.0, np.deg2rad(0.02), len(poses))
        measured[link] = replace(track, values=planar_poses(poses[:, :2], poses[:, 2]))
    return run_from_recording(CONFIGURATION, replace(loaded, tracks=measured), name, 2.0).samples()


def test_intervals_cover() -> None:
    """95 % of the coefficients over several measurements, of three gaits and of one alone; and are not idly wide."""
    rng = np.random.default_rng(31)
    scores = []
    for _ in range(3):
        samples = [noisy_samples(name, rng) for name in ("forward", "left", "turning")]
        for used in (samples, samples[:1]):
            fit = fit_drag(MODEL, used)
            true = fit.terms.coefficients(MODEL)
            scores.append((fit.values - true)[1:] / fit.half_widths[1:])
    assert np.mean(np.abs(scores) <= 1.0) >= 0.9
    assert np.sqrt(np.mean(np.square(scores))) > 0.2  # 0.51 where exact


def test_what_is_poorly_determined_is_said_with_the_gait_that_helps() -> None:
    """The expected width after another recording against the width that this recording then gives."""
    start = fit_drag(MODEL, five()[2:3])
    poor = np.flatnonzero(start.poor)
    assert {start.terms.kinds[k] for k in poor} == {"joint"}
    expected = expected_half_widths(start, {"turning": GAITS["turning"]}, five()[0].step_s, duration_s=17.0)
    after = fit_drag(MODEL, [five()[2], five()[4]])
    ratio = expected["turning"][poor] / after.half_widths[poor]
    assert ((ratio > 0.4) & (ratio < 2.5)).all()
    result = identify(CONFIGURATION, {"left": from_simulator(recording(GAITS["left"], 18.0, 12), CHAIN.link_names)})
    text = " ".join(result.notes)
    assert "Poorly determined" in text
    assert "joint 1: 60 s more of turning" in text


def test_what_is_no_drag_is_named_and_kept_as_configured() -> None:
    """A harness that holds the joints looks like forty times their drag."""
    simulation = ROBOT.simulation(CONFIGURATION, "hardware", "forward", np.random.default_rng(0), imu_rate_hz=50.0)
    one = from_simulator(simulation.advance(24 * NANOSECONDS_PER_SECOND), CHAIN.link_names)
    result = identify_recordings(ROBOT, CONFIGURATION, {"forward": one})
    np.testing.assert_allclose(result.configuration.chain.joint_drag, CHAIN.joint_drag, rtol=1e-6)
    assert any("Not determined, kept as configured" in note and "joint 1 (0." in note for note in result.notes)
    assert [one.interval for one in result.coefficients[-2:]] == ["not determined: kept"] * 2
    assert result.halved
    assert "the second half of one bag" in result.opinion


@pytest.mark.slow
@pytest.mark.parametrize(("chain", "helps"), [(CHAIN, None), (wrong_chain(), True)])
def test_whether_the_filter_gains_is_said(chain: ChainConfiguration, helps: bool | None) -> None:
    """From the true drag nothing is gained, from a wrong guess a lot; on recordings that were left out."""
    gaits = ("forward", "turning", "left")
    recordings = {name: from_simulator(recording(GAITS[name], 18.0), CHAIN.link_names) for name in gaits}
    result = identify_recordings(ROBOT, replace(CONFIGURATION, chain=chain), recordings)
    assert result.helps is helps
    assert result.opinion.startswith("Use it" if helps else "No difference shown")
    assert "on 3 left-out bags" in result.opinion
    assert all(len(one.before) == 3 for one in result.gains)


def test_a_motion_that_leaves_matrices_open_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where linear algebra fails, coefficients are named."""

    def fails(*_: Any) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(identification, "whitening", fails)
    with pytest.raises(UserError, match=r"does not determine joint 1: .*, or leave out --full"):
        fit_drag(MODEL, five()[2:3], full=True)


# --- Scale, validation, command -----------------------------------------------------------------------------------


def with_effort(one: Recording, factor: float, noise: float = 0.02, drag: bool = True) -> Recording:
    """The recording with the wheels' torques: thrust d_xx u (eq. 4) times the radius, or mere noise."""
    command = one.sensors[0]
    rim_speeds = command.values * CHAIN.wheel_radius_m
    torque = factor * np.array(CHAIN.wheel_drag_xx) * rim_speeds * CHAIN.wheel_radius_m * float(drag)
    torque += np.random.default_rng(9).normal(0.0, noise, torque.shape)
    return Recording(
        (*one.sensors, Series(identification_channels(CONFIGURATION)[0], command.stamps_ns, torque)), one.truth
    )


def test_wheel_effort_gives_the_scale() -> None:
    """A chain with 1.7 times the drag moves alike; its wheels need 1.7 times the torque."""
    held = {"forward": from_simulator(recording(), CHAIN.link_names)}
    measured = {"forward": from_simulator(with_effort(recording(), 1.7), CHAIN.link_names)}
    useless = {"forward": from_simulator(with_effort(recording(), 1.7, drag=False), CHAIN.link_names)}
    without, result, refused = (identify(CONFIGURATION, one) for one in (held, measured, useless))
    assert without.scale.held
    assert without.coefficients[0].held
    assert any("d_xx is held at its configured 55.93" in note for note in without.notes)
    first = result.coefficients[0]
    assert not result.scale.held
    assert first.low < 1.7 * CHAIN.wheel_drag_xx[0] < first.high
    assert 0.0 < first.high - first.low < 0.1 * first.value
    assert result.scale.explained > 0.9
    assert [one.ratio for one in result.coefficients] == [one.ratio for one in without.coefficients]
    assert result.configuration.chain.wheel_drag_yy[0] == pytest.approx(1.7 * CHAIN.wheel_drag_yy[0], rel=0.05)
    assert refused.scale.held
    assert any("is not thrust" in note for note in refused.notes)


def test_command_writes_parameters_picture_and_figures(tmp_path: Path) -> None:
    """A bag with flipped markers and without one gyro; what it writes is taken by --config and repeats the figures."""
    samples = [one for one in messages_of(recording(duration_s=10.0)) if "/imu/link_3/" not in one.topic]

    def half_turn(number: int, message: Any) -> None:
        if 500 <= number < 540:
            pose = message.pose.orientation
            pose.z, pose.w = pose.w, -pose.z

    bag = write(tmp_path / "bag", spoilt(samples, "ground_truth/link_2/pose", half_turn))
    outcome = command("identify", "salp", bag, "--full", "--output", tmp_path / "out", "--json")
    assert outcome.code == 0, outcome
    figures = json.loads(outcome.out)
    assert figures["recordings"][0]["frames_left_out"] == {"link_1": 0, "link_2": 40, "link_3": 0}
    assert any("40 of link_2" in note for note in figures["notes"])
    assert len(figures["coefficients"]) == 20
    assert [one["name"] for one in figures["validation"][0]["signals"]][-2:] == ["gyro 1", "gyro 2"]
    assert json.loads((tmp_path / "out/identification.json").read_text())["scale"] == figures["scale"]
    loaded = load(SalpConfiguration, tmp_path / "out/identified.yaml")
    assert list(loaded.chain.wheel_drag_yy) == figures["parameters"]["chain.wheel_drag_yy"]
    np.testing.assert_allclose(loaded.chain.wheel_drag_yy, CHAIN.wheel_drag_yy, rtol=0.03)
    assert list(loaded.chain.wheel_drag_xt) == figures["parameters"]["chain.wheel_drag_xt"]
    assert (tmp_path / "out/validation.png").read_bytes().startswith(b"\x89PNG")
    assert "exists already and is not empty" in refusal("identify", "salp", bag, "--output", tmp_path / "out")


def test_command_refuses_bags_that_tell_nothing(tmp_path: Path) -> None:
    samples = messages_of(recording(duration_s=6.0))
    out = ("--output", tmp_path / "out")
    no_truth = write(tmp_path / "a", [one for one in samples if "/ground_truth/" not in one.topic])
    assert "no motion capture of link_1, link_2, link_3" in refusal("identify", "salp", no_truth, *out)
    no_command = write(tmp_path / "b", [one for one in samples if "/actuators/" not in one.topic])
    assert "no commands on actuators/command" in refusal("identify", "salp", no_command, *out)
    whole = write(tmp_path / "c", samples)
    assert "does not fit motion capture at 120 Hz" in refusal("identify", "salp", whole, "--cutoff", "50", *out)
    lengths = "chain.link_lengths_m=[0.2,0.2,0.2]"
    assert "though they share a joint" in refusal("identify", "salp", whole, "--set", lengths, *out)
    assert "given twice" in refusal("identify", "salp", whole, whole, *out)
    assert not (tmp_path / "out").exists()
