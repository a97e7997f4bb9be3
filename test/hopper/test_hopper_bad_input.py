"""What a user may give the hopper: sensors missing, clipped, stuck or askew, gaps, rest, no truth. All with numbers.

Bounds are on the package's own filters. Errors count from the first drop on, unless a test says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hopper_samples_for_tests import (
    CONFIGURATION,
    DROP_S,
    GRAVITY,
    HIGH,
    LOW,
    ROBOT,
    STANDING_M,
    TRUTH,
    changed,
    every,
    hopping,
    judged,
    loaded,
    lost,
    rows_of,
    series_of,
    values_by,
    without,
)

from hopper_estimation.judging.report import phase_stretches
from hopper_estimation.model.phases import EVENTS
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.pipeline.pipeline import Pipeline

IMUS = (LOW, HIGH)


def errors(result: EvaluationResult, name: str = "height", after_s: float = DROP_S) -> tuple[Any, Any]:
    """Errors and standard deviations where there is a truth."""
    part = result.parts[name]
    chosen = (result.time_s > after_s) & np.isfinite(part.error[:, 0])
    assert chosen.sum() > 100
    return part.error[chosen, 0], part.stddev[chosen, 0]


def within_three(result: EvaluationResult, name: str = "height", after_s: float = DROP_S) -> float:
    error, stddev = errors(result, name, after_s)
    return float(np.mean(np.abs(error) < 3.0 * stddev))


def rms(result: EvaluationResult, after_s: float = DROP_S) -> float:
    return float(np.sqrt(np.mean(errors(result, after_s=after_s)[0] ** 2)))


def says(result: EvaluationResult, *words: str) -> bool:
    return any(all(word in note for word in words) for note in result.notes)


def in_order(result: EvaluationResult) -> None:
    """Each event is the one that follows the one before."""
    kinds = [EVENTS.index(event.name) for event in result.phase_events]
    assert len(kinds) > 3
    assert all(b == (a + 1) % len(EVENTS) for a, b in pairwise(kinds))


def hops(result: EvaluationResult) -> Mapping[str, Any]:
    found: Mapping[str, Any] = result.metrics["hopper"]["hops"]
    return found


def told_by(recording: Recording) -> list[str]:
    """What the log of a node has of it, message by message as arrivals are taken live."""
    told: list[str] = []
    pipeline = Pipeline(ROBOT.estimator(CONFIGURATION, "kf1"), ROBOT.channels(CONFIGURATION), tell=told.append)
    measurements = list(loaded(recording).measurements())
    for first in range(0, len(measurements), 100):
        pipeline.process_all(measurements[first : first + 100])
    return told


@cache
def sound(variant: str = "1m") -> EvaluationResult:
    return judged(hopping(variant))


def test_a_sound_recording_has_no_complaint() -> None:
    """What the tests below look for is not said of every recording, neither in the verdict nor live."""
    for word in ("silent", "stuck", "clipped", "at odds", "zeroed", "goes on"):
        assert not says(sound(), word), word
        assert word not in sound().verdict
    assert rms(sound()) < 0.2
    in_order(sound())
    assert told_by(hopping()) == []


# -------------------------------------------------------------------------------------------- one sensor, the other


def from_8_s(value: Callable[[Any], Any]) -> Any:
    def change(time_s: Any, values: Any) -> Any:
        first = int(np.searchsorted(time_s, 8.0))
        values[first:] = value(values[first:])
        return values

    return values_by(change)


def at_range(values: Any) -> Any:
    values[:, 5] = CONFIGURATION.sensors.high_range_m_s2
    return values


def in_g(values: Any) -> Any:
    return values * [1, 1, 1, 1 / GRAVITY, 1 / GRAVITY, 1 / GRAVITY]


def axes_swapped(values: Any) -> Any:
    return values[:, [1, 2, 0, 4, 5, 3]]


BEFORE_8_S = rows_of(lambda time_s: time_s < 8.0)
STUCK = from_8_s(lambda values: 0 * values + values[0])


@pytest.mark.parametrize(
    ("change", "said", "verdict", "live"),
    [
        (without, ("Without imu/high_g", "low-g sensor alone"), "no high-g sensor", ""),
        (BEFORE_8_S, ("imu/high_g is silent for 6.0 of 14.0 s",), "high-g sensor silent", ""),
        (from_8_s(at_range), ("of the readings of imu/high_g are at their range",), "high-g sensor clipped", ""),
        (STUCK, ("imu/high_g repeats one reading in 42.9 %",), "high-g sensor stuck", "repeats one reading"),
    ],
    ids=["missing", "silent", "clipped", "stuck"],
)
def test_without_the_high_g_sensor(change: Any, said: tuple[str, ...], verdict: str, live: str) -> None:
    spoilt = changed(hopping(), {HIGH: change})
    result = judged(spoilt)
    assert says(result, *said), result.notes
    assert verdict in result.verdict
    assert "at odds" not in result.verdict
    in_order(result)
    assert hops(result)["missed_hops"] == 0
    assert rms(result) < 0.5
    assert within_three(result) > 0.95
    late = [errors(one, after_s=8.0)[1] for one in (result, sound())]
    assert np.median(late[0]) > 1.3 * np.median(late[1]), "the covariance is no wider"
    if live:
        (sentence,) = told_by(spoilt)
        assert live in sentence


def test_a_smaller_range_than_configured_is_found() -> None:
    clipped = changed(hopping(), {HIGH: values_by(lambda t, v: np.clip(v, -250.0, 250.0))})
    result = judged(clipped)
    assert says(result, "250 m/s^2 and none is more", "--set sensors.high_range_m_s2=250")
    told = replace(CONFIGURATION, sensors=replace(CONFIGURATION.sensors, high_range_m_s2=250.0))
    assert says(judged(clipped, configuration=told), "at their range", "250 m/s^2")


@pytest.mark.parametrize(
    ("variant", "change", "said", "verdict"),
    [
        ("3m", without, ("Without imu/low_g", "high-g sensor alone"), "no low-g sensor"),
        ("1m", BEFORE_8_S, ("imu/low_g is silent for 6.0 of 14.0 s",), "low-g sensor silent"),
        ("3m", STUCK, ("imu/low_g repeats one reading in 42.9 %",), "low-g sensor stuck"),
    ],
    ids=["missing", "silent", "stuck"],
)
def test_without_the_low_g_sensor(variant: str, change: Any, said: tuple[str, ...], verdict: str) -> None:
    """The high-g sensor is zeroed at the rest of the start, and its noise and drift show in the covariance."""
    result = judged(changed(hopping(variant), {LOW: change}))
    assert says(result, *said), result.notes
    assert verdict in result.verdict
    assert rms(result) < 0.25 * float(variant[0]) + 0.2
    assert within_three(result) > 0.95
    # Up to the drop nothing but the rest of the start is known.
    assert np.abs(errors(result, after_s=0.0)[0]).max() < 8.0
    assert within_three(result, after_s=0.0) > 0.95


def test_a_stuck_gyro_turns_nothing() -> None:
    """A sensor that sticks at a rate of 2 rad/s would have the robot upside down within two seconds."""

    def stuck(values: Any) -> Any:
        return 0 * values + [2.0, -1.0, 0.0, 3.0, -2.0, 4.0]

    result = judged(changed(hopping(), {LOW: from_8_s(stuck), "imu/attitude": without}))
    assert rms(result, after_s=9.0) < 0.5
    assert hops(result)["missed_hops"] == 0


def test_a_high_g_sensor_at_odds_with_the_other_is_left_out_and_that_is_said() -> None:
    spoilt = changed(hopping(), {HIGH: values_by(lambda t, v: in_g(v))})
    result = judged(spoilt)
    assert says(result, "imu/high_g contradicts imu/low_g", "left out")
    assert "accelerometers at odds" in result.verdict
    alone = judged(changed(spoilt, {HIGH: without}))
    assert within_three(result, after_s=9.0) > 0.97
    assert rms(result, after_s=9.0) < 1.3 * rms(alone, after_s=9.0)


def test_a_high_g_sensor_that_is_at_odds_for_a_while_is_noted_all_the_same() -> None:
    """Left out within four hops, and taken again when it is right again: the run's end does not show it."""
    wrong_s = (8.0, 15.0)

    def spoil(time_s: Any, values: Any) -> Any:
        values[(time_s > wrong_s[0]) & (time_s < wrong_s[1]), 3:] *= 2.0
        return values

    spoilt = changed(hopping(duration_s=24.0), {HIGH: values_by(spoil)})
    result = judged(spoilt)
    assert says(result, "imu/high_g contradicts imu/low_g", "It was left out for ")
    assert "accelerometers at odds" in result.verdict
    left_out, again = told_by(spoilt)
    assert "imu/high_g contradicts imu/low_g" in left_out
    assert "imu/high_g is as it should be again" in again
    found_s, over_s = (float(one.rsplit("(at ", 1)[1].split()[0]) for one in (left_out, again))
    touchdowns = [event.stamp_ns * 1e-9 for event in result.phase_events if event.name == "touchdown"]
    assert sum(wrong_s[0] < one < found_s for one in touchdowns) <= 5
    assert wrong_s[1] < over_s < 24.0


def test_a_gyro_whose_zero_moves_is_told_within_5_s_and_the_height_stays_right() -> None:
    """Without an attitude sensor: innovations do not see a tilt, what pushes over whole hops does."""
    moved = from_8_s(lambda values: values + 0.15 * (np.arange(6) == 1))
    spoilt = changed(hopping(duration_s=24.0), {LOW: moved, "imu/attitude": without})
    result = judged(spoilt, "bounce")
    assert says(result, "the gyro of imu/low_g reads over 0.02 rad/s otherwise than at rest")
    assert within_three(result, after_s=8.0) > 0.97
    assert rms(result, after_s=14.0) < 0.1
    (told,) = told_by(spoilt)
    assert 8.0 < float(told.rsplit("(at ", 1)[1].split()[0]) < 13.0


# ------------------------------------------------------------------------------------- sensors that cannot be right

SIDE = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=float)
WRONG: dict[str, tuple[Any, tuple[str, ...]]] = {
    "axes": (axes_swapped, ("y 9.", "gravity along y", "turn the axes in the driver")),
    "upside_down": (lambda v: v * [1, -1, -1, 1, -1, -1], ("z -9.", "gravity along -z", "start upright")),
    "in_g": (in_g, ("z 0.9", "as if in g", "multiply by 9.80665")),
    "offset": (lambda v: v + np.array([0, 0, 0, 0, 0, 3.0]), ("z 12.", "from gravity, allowed are 1.5", "scale")),
}


ATTITUDE = {
    "w_first": (lambda v: v[:, [3, 0, 1, 2]], ("imu/attitude says that up is 17", "its quaternion may be w first")),
    "z_down": (lambda v: v[:, [3, 2, 1, 0]] * [1, 1, -1, -1], ("a frame with z down", "--drop imu/attitude")),
}
WRONG |= ATTITUDE


def wrong(what: str, recording: Recording) -> Recording:
    spoil, _ = WRONG[what]
    sensors = ("imu/attitude",) if what in ATTITUDE else IMUS
    return changed(recording, {one: values_by(lambda t, v: spoil(v)) for one in sensors})


@pytest.mark.parametrize("what", WRONG)
def test_sensors_that_cannot_be_right_are_refused(what: str) -> None:
    """In one sentence, with the gravity vector that was found and a way out."""
    with pytest.raises(UserError) as raised:
        judged(wrong(what, hopping()))
    sentence = str(raised.value)
    assert sentence.startswith("at rest imu/low_g reads x ")
    assert all(words in sentence for words in WRONG[what][1])
    assert "\n" not in sentence


def test_they_are_refused_by_the_same_sentence_message_by_message_and_live_once() -> None:
    """The robot was at rest for the first two seconds: what was found there stays, however it moved later."""
    whole = wrong("axes", hopping())
    spoilt = changed(whole, {one.channel.sensor: rows_of(lambda t: t < 3.0) for one in whole.sensors})
    refused = []
    for one, settings in ((whole, None), (spoilt, JudgeSettings(bulk=False))):
        with pytest.raises(UserError) as raised:
            judged(one, settings=settings)
        refused.append(str(raised.value))
    assert len(set(refused)) == 1
    told: list[str] = []
    channels = ROBOT.channels(CONFIGURATION)
    pipeline = Pipeline(ROBOT.estimator(CONFIGURATION, "kf1"), channels, lag_s=0.02, tell=told.append)
    estimates = sum(pipeline.process(one) is not None for one in list(loaded(spoilt).measurements())[:6000])
    assert len(told) == 1
    assert "at rest imu/low_g reads x " in told[0]
    assert 400 < estimates < 800, "none after the rest of 0.8 s"
    assert pipeline.statistics()[LOW]["left_out"] > 500
    # After a reset, as of a robot that was set right, it goes on.
    pipeline.reset()
    later = [m for m in loaded(hopping()).measurements() if m.stamp_ns < 1_500_000_000]
    assert sum(pipeline.process(m) is not None for m in later) > 1000
    assert len(told) == 1


def test_a_robot_that_falls_over_in_the_end_is_not_refused() -> None:
    """It hopped well before; and lying on its side it neither moves nor hops."""
    whole = hopping()
    rest = rows_of(lambda t: (t > 0.2) & (t < 1.8))

    def fallen(one: Series) -> Series:
        lying = rest(one)
        values = np.hstack([lying.values[:, :3], lying.values[:, 3:] @ SIDE])
        stamps_ns = np.concatenate([one.stamps_ns, lying.stamps_ns + 13_900_000_000])
        return replace(one, stamps_ns=stamps_ns, values=np.concatenate([one.values, values]))

    spoilt = changed(whole, {LOW: fallen, HIGH: fallen, "imu/attitude": without})
    result = judged(spoilt)
    assert rms(result) < 0.3
    heights = result.parts["height"].estimate[:, 0]
    assert np.abs(heights[result.time_s > 14.0]).max() < 30.0


# ------------------------------------------------------------------------------------------------------------- gaps


def events_at(result: EvaluationResult, name: str) -> list[float]:
    return [event.stamp_ns * 1e-9 for event in result.phase_events if event.name == name]


def holes(starts_s: list[float], length_s: float = 0.05) -> Any:
    return rows_of(lambda t: np.all([(t < start) | (t > start + length_s) for start in starts_s], axis=0))


def bunched(one: Series) -> Series:
    """Of a sender that is held up: every fourth reading is stamped in time, the three before it almost at its stamp."""
    late = np.arange(len(one.stamps_ns) - 4)
    last = np.minimum((late // 4) * 4 + 3, len(one.stamps_ns) - 1)
    stamps = one.stamps_ns.copy()
    stamps[late] = one.stamps_ns[last] - (last - late) * 40_000
    return replace(one, stamps_ns=stamps)


def in_flight(one: Series) -> Series | None:
    return holes([at + 0.1 for at in events_at(sound("3m"), "apex")])(one)


def in_stance(one: Series) -> Series | None:
    return holes([at + 0.005 for at in events_at(sound(), "touchdown")[1:4]])(one)


@pytest.mark.parametrize(
    ("variant", "changes", "most_m"),
    [
        ("1m", {LOW: lost(0.05, 1), HIGH: lost(0.05, 2)}, 0.3),
        ("3m", {LOW: in_flight, HIGH: in_flight}, 0.46),
        ("1m", {LOW: in_stance}, 0.3),
        ("1m", {LOW: bunched, HIGH: bunched}, np.inf),  # jerk counts true time
    ],
    ids=["one message in twenty", "gaps in flight", "in stance", "bunched stamps"],
)
def test_no_hop_is_missed_nor_feigned(variant: str, changes: Any, most_m: float) -> None:
    result = judged(changed(hopping(variant), changes))
    assert hops(result)["missed_hops"] == hops(result)["extra_hops"] == 0
    in_order(result)
    assert rms(result) < most_m
    assert most_m == np.inf or within_three(result) > 0.95


@pytest.mark.parametrize(("variant", "before_s"), [("1m", 0.0), ("3m", 0.02)])
def test_gaps_about_a_touchdown(variant: str, before_s: float) -> None:
    """50 ms without a reading, of a stance of 60 ms: nobody knows how fast it takes off, and the covariance says so."""
    touchdowns = events_at(sound(variant), "touchdown")
    gap = holes([at - before_s for at in touchdowns[1:3]])
    result = judged(changed(hopping(variant), {LOW: gap, HIGH: gap}))
    speed = np.sqrt(2.0 * GRAVITY * float(variant[0]))
    assert np.abs(errors(result, "vertical_velocity")[0]).max() < 5.0 * speed
    assert np.abs(errors(result)[0]).max() < 10.0 * float(variant[0])
    assert within_three(result) > 0.9
    if variant == "1m":  # three hops later it is as good as ever
        assert rms(result, after_s=touchdowns[5]) < 0.3
    assert hops(result)["missed_hops"] <= 3
    assert len(events_at(result, "touchdown")) <= len(touchdowns) + 2


# ------------------------------------------------------------------------------------------------- rest and beginnings


def with_rest(recording: Recording, pieces: int) -> Recording:
    """The rest of the start so many times before and after, 1.6 s each."""
    shift_ns = pieces * 1_600_000_000

    def longer(one: Series) -> Series:
        if one.channel.sensor == "set_pose":
            return replace(one, stamps_ns=one.stamps_ns + shift_ns)
        piece = rows_of(lambda t: (t >= 0.2) & (t < 1.8))(one)
        before = [piece.stamps_ns - 200_000_000 + k * 1_600_000_000 for k in range(pieces)]
        after = [stamps_ns + shift_ns + 14_010_000_000 for stamps_ns in before]
        values = np.concatenate([*[piece.values] * pieces, one.values, *[piece.values] * pieces])
        return replace(one, stamps_ns=np.concatenate([*before, one.stamps_ns + shift_ns, *after]), values=values)

    names = [one.channel.sensor for one in (*recording.sensors, *recording.truth)]
    return changed(recording, dict.fromkeys(names, longer))


def test_a_long_rest_before_and_after() -> None:
    result = judged(with_rest(hopping(), 13), "bounce")
    time_s, height = result.time_s, result.parts["height"].estimate[:, 0]
    velocity = result.parts["vertical_velocity"].estimate[:, 0]
    before, after = time_s < 20.0, time_s > 38.0
    assert [event for event in result.phase_events if not 19.0 < event.seen_ns * 1e-9 < 36.0] == []
    assert np.abs(height[before | after] - STANDING_M).max() < 0.1
    assert np.abs(velocity[(before & (time_s > 2.0)) | after]).max() < 5e-3
    assert hops(result)["missed_hops"] == 0
    told = {words for words, rows in phase_stretches(CONFIGURATION, result).items() if rows.any()}
    assert {"while dropping", "in stance, down", "before the first drop"} <= told


def between(recording: Recording, start_s: float, stop_s: float) -> Recording:
    names = [one.channel.sensor for one in (*recording.sensors, *recording.truth)]
    return changed(recording, dict.fromkeys(names, rows_of(lambda t: (t >= start_s) & (t < stop_s))))


@pytest.mark.parametrize(("phase", "truth"), [("flight", True), ("stance", False)])
def test_a_first_message_in_the_middle_of_a_hop(phase: str, truth: bool) -> None:
    """With a truth it starts from that, else as if standing; the sensors are not zeroed, and that is said."""
    at = events_at(sound(), "apex")[1] - 0.1 if phase == "flight" else events_at(sound(), "touchdown")[2] + 0.02
    cut = between(hopping(), at, 14.0)
    result = judged(cut if truth else changed(cut, {TRUTH: without}))
    assert says(result, "never stood still for 0.8 s", "not zeroed")
    assert "sensors not zeroed" in result.verdict
    (sentence,) = told_by(cut)
    assert "are not zeroed" in sentence
    in_order(result)
    true = series_of(hopping(), TRUTH)
    late = result.time_s > 3.0
    true_m = np.interp(result.stamps_ns[late], true.stamps_ns, true.values[:, 2])
    # An offset of some m/s^2 of the high-g sensor acts in stance only.
    assert np.sqrt(np.mean((result.parts["height"].estimate[late, 0] - true_m) ** 2)) < 0.4
    assert len(events_at(result, "apex")) >= 4


# ---------------------------------------------------------------------------------------------------- other messages


@pytest.mark.parametrize(
    ("name", "missing", "most_percent"),
    [("kf1", "commanded_height", 15.0), ("eskf2", "motors/command", 40.0)],
)
def test_optional_topics_missing(name: str, missing: str, most_percent: float) -> None:
    result = judged(changed(hopping(), {missing: without}), name)
    assert hops(result)["missed_hops"] == 0
    assert hops(result)["m3_apex_height_mape_percent"] < most_percent
    assert within_three(result) > 0.9
    assert says(result, "Without motors/command", name) == (missing == "motors/command")
    if missing == "commanded_height":
        assert "m5_apex_height_to_command_mae_m" not in hops(result)


# ------------------------------------------------------------------------------------------------------------- truth


def test_without_any_truth_hops_are_told_all_the_same() -> None:
    result = judged(changed(hopping(), {TRUTH: without}))
    assert result.verdict.startswith("not judged")
    figures = result.metrics["hopper"]
    assert figures["hops"]["hops_estimated"] == len(events_at(result, "touchdown")) - 1
    assert "m3_apex_height_mape_percent" not in figures["hops"]
    assert 0.5 < figures["agility_estimated"]["hop_height_m"] < 1.5
    in_order(result)


def test_a_truth_without_hops_and_one_that_is_slow() -> None:
    result = judged(changed(hopping(), {TRUTH: rows_of(lambda t: t < 5.0)}))
    assert "m3_apex_height_mape_percent" not in hops(result)
    assert hops(result)["hops_estimated"] == 7
    assert "agility_true" not in result.metrics["hopper"]
    # One that is too slow for a velocity starts the filter all the same, without any.
    slow, slower = (judged(changed(hopping(), {TRUTH: every(step)})) for step in (12, 144))
    assert not says(slow, "broke down")
    assert rms(slow) < 0.3
    assert hops(slow)["m3_apex_height_mape_percent"] < 15.0
    assert "m3_apex_height_mape_percent" not in hops(slower)
