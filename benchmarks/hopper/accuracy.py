"""How well hopper filters know height and hops on robots that they were not trained on; nothing is timed or tuned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from benchmarks.hopper.trials import FILTERS, deviations, filter_row, judged_filter, unknown, unknown_recording
from benchmarks.measuring import Array, Row, in_turns, rms, row
from hopper_estimation.estimators.filters import filters_of
from hopper_estimation.estimators.samples import NOMINAL_DT_S, taken_of
from hopper_estimation.model.configuration import HIGH_G, HopperConfiguration, HopperTrainingConfiguration
from hopper_estimation.model.phases import APEX, SIGNAL, TOUCHDOWN, Records
from hopper_estimation.paper.trials import CONFIGURATION, ROBOT, recorded, simulated, told
from hopper_estimation.simulation.foreign_effects import ForeignScenario, foreign_scenario
from hopper_estimation.simulation.simulator import HopperSimulation
from hopper_estimation.training.filter_calibration import Trial, trial_of
from hopper_estimation.training.filter_training import train_filter
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.filtering.consistency import coverage
from onboard_estimation.judging.judge import judge

_GRAVITY, _STANDING_M = CONFIGURATION.robot.gravity_m_s2, CONFIGURATION.robot.standing_height_m
_LOW_NOISE, _HIGH_NOISE, _LOW_RANGE = 0.15, 4.6, 156.9


class Handled(NamedTuple):
    """Seconds of hands; hops and touchdowns told in them; the height's errors within three standard deviations in them,
    and from the second touchdown after them on, with the height's RMS error there, m."""

    seconds: float
    apexes: int
    touchdowns: int
    covered: float
    covered_after: float
    rms_after_m: float


class Hand:
    """Heights over time, moved from one to the next."""

    def __init__(self, height_m: float, velocity_m_s: float) -> None:
        self._at = height_m, velocity_m_s
        self._pieces: list[Array] = []

    def move(self, height_m: float, seconds: float, velocity_m_s: float = 0.0) -> None:
        """By a quintic with no acceleration at its ends."""
        start, speed = self._at
        far, before, after = height_m - start, speed * seconds, velocity_m_s * seconds
        third, fourth = 10 * far - 6 * before - 4 * after, -15 * far + 8 * before + 7 * after
        shape = Polynomial([start, before, 0, third, fourth, 6 * far - 3 * before - 3 * after])
        self._pieces.append(shape(_times(seconds) / seconds))
        self._at = height_m, velocity_m_s

    def hold(self, seconds: float, step_m: float = 0.0, steps_hz: float = 1.8) -> None:
        """Still, or walking."""
        t = _times(seconds)
        fade = np.clip(np.minimum(t, seconds - t) / 0.5, 0.0, 1.0)
        self._pieces.append(self._at[0] + fade * step_m * np.sin(2.0 * np.pi * steps_hz * t))

    def throw(self, speed_m_s: float) -> None:
        """Up in a quarter of a second, free until it is back, caught in another."""
        start = self._at[0]
        top = start + 0.12 * speed_m_s
        self.move(top, 0.25, speed_m_s)
        t = _times(2.0 * speed_m_s / _GRAVITY)
        self._pieces.append(top + speed_m_s * t - 0.5 * _GRAVITY * t**2)
        self._at = top, -speed_m_s
        self.move(start, 0.25)

    @property
    def height_m(self) -> Array:
        """(N,) at each sample."""
        return np.concatenate(self._pieces)


def _times(seconds: float) -> Array:
    count = max(int(seconds / NOMINAL_DT_S), 2)
    return np.arange(1, count + 1) / count * seconds


def handled(height_m: float, velocity_m_s: float, drop_m: float, rng: np.random.Generator) -> tuple[Records, Array]:
    """Two minutes from a height and velocity to rest at another height: signals, and (N,) the height."""
    hand = Hand(height_m, velocity_m_s)
    hand.move(max(height_m + 0.1 * velocity_m_s, 0.4), 0.2)
    hand.move(1.2, 1.0)
    hand.hold(5.0)
    hand.hold(20.0, 0.02, rng.uniform(1.6, 2.1))
    hand.hold(8.0)
    for speed in (rng.uniform(2.0, 3.0), rng.uniform(3.5, 5.0)):
        hand.throw(speed)
        hand.hold(3.0)
    hand.move(_STANDING_M, 2.0)
    down = len(hand.height_m)
    hand.hold(25.0)
    hand.move(1.0, 1.5)
    hand.hold(10.0, 0.02, rng.uniform(1.6, 2.1))
    hand.move(_STANDING_M, 3.0)
    hand.hold(20.0)
    hand.move(drop_m, 3.0)
    height = hand.height_m
    acceleration = np.gradient(np.gradient(height, NOMINAL_DT_S), NOMINAL_DT_S)
    acceleration[down : down + 10] += rng.uniform(20.0, 60.0)
    for _ in range(12):  # knocks while it stands or is held, which move it nowhere
        at, long = int(rng.integers(down + 1700, len(height) - 4000)), int(rng.integers(3, 9))
        push = rng.uniform(30.0, 150.0)
        acceleration[at : at + long] += push
        acceleration[at + long : at + 3 * long] -= 0.5 * push
    count = len(height)
    signals = np.zeros(count, SIGNAL)
    signals["dt"], signals["usable"] = NOMINAL_DT_S, 3
    low = acceleration + _GRAVITY + _LOW_NOISE * rng.normal(size=count)
    signals["low"] = np.clip(low, -_LOW_RANGE, _LOW_RANGE) - _GRAVITY
    signals["high"] = acceleration + _HIGH_NOISE * rng.normal(size=count) + 0.5 * rng.normal()
    for name in ("goal", "thrust", "leg"):
        signals[name] = np.nan
    return signals, height


def judged_hands(name: str, seed: int) -> Handled:
    """What this filter, as it ships, says of the recording of this seed."""
    rng = np.random.default_rng(seed)
    hops = simulated("hardware", "mixed", 40.0, seed)
    aloft = (hops.true_height_m > 0.6) & (np.arange(len(hops.time_s)) > len(hops.time_s) // 2)
    stop = int(rng.choice(np.flatnonzero(aloft)))
    caught = float(hops.true_height_m[stop]), float(hops.true_velocity_m_s[stop])
    signals, height_m = handled(*caught, hops.start_height_m, rng)
    whole = np.concatenate([hops.signals[:stop], signals, hops.signals])
    true_m = np.concatenate([hops.true_height_m[:stop], height_m, hops.true_height_m])
    entry = filters_of("").entry(name)
    trial = Trial(
        name, whole, hops.start_height_m, true_m, np.full_like(true_m, np.nan), np.cumsum(whole["dt"]), hops.hops
    )
    out, events = told(name, entry, trial)
    height, _ = deviations(out, entry, trial)
    inside, known = height < 3.0, np.isfinite(height)
    samples, kinds = events["sample"], events["kind"]
    begin, end = stop, stop + len(height_m)
    there = (samples >= begin) & (samples < end)
    # An apex before the hand has stopped it is one.
    hops_told = there & (kinds == APEX) & (samples > begin + 0.2 / NOMINAL_DT_S)
    landings = samples[(kinds == TOUCHDOWN) & (samples >= end)].astype(np.int64)
    number = np.arange(len(true_m))
    hands = known & (number >= begin) & (number < end)
    sane = known & (number >= (landings[1] if len(landings) > 1 else end))
    return Handled(
        len(height_m) * NOMINAL_DT_S,
        int(hops_told.sum()),
        int((there & (kinds == TOUCHDOWN)).sum()),
        float(inside[hands].mean()),
        float(inside[sane].mean()),
        rms(out[sane, 0] - true_m[sane]),
    )


OWN = {
    "varied": ("heights of 0.3 to 5 m, another every 2 to 8 s", range(7100, 7110), 60.0),
    "mixed": ("1 to 4 m, another every 12 s", range(7110, 7120), 60.0),
    "0.3m": ("0.3 m", range(7120, 7130), 40.0),
    "5m": ("5 m", range(7130, 7140), 40.0),
}
TARGETS = {"m3": 7.0, "changed": 12.0, "covered": 0.97}
SOUND_SEEDS, SPOILT_SEEDS = range(9400, 9420), range(9420, 9424)
_DURATION_S, _MID_RUN_S, _STANCE_S = 40.0, 12.0, 3.0

SPOILT: dict[str, Callable[[Array], Array]] = {
    "reversed": lambda values: values * [1, 1, 1, -1, -1, -1],
    "axes swapped": lambda values: values[:, [1, 2, 0, 4, 5, 3]],
    "doubled": lambda values: values * [1, 1, 1, 2, 2, 2],
}


class Found(NamedTuple):
    """When a wrong sensor was left out, s after it became wrong (NaN: never), and touchdowns between.

    Shares of the height's errors within three standard deviations, before and from three seconds after; the RMS
    error after, m.
    """

    after_s: float
    touchdowns: int
    covered_before: float
    covered_after: float
    rms_after_m: float


def hopper_unknown(quick: bool) -> list[Row]:
    """Hopper: four robots of unknown build (simulated by others), each judged by a filter of the other three.

    And beside them the filters that come with the package, on those four and on our own scenario `hardware`: heights
    that change every few seconds, hops of 0.3 m and 5 m, and with readings lost for 20 to 70 ms around half of all
    touchdowns or liftoffs.
    """
    others = unknown(2 if quick else 4)
    settings = HopperTrainingConfiguration(individuals=60, generations=3) if quick else HopperTrainingConfiguration()
    rows, table = [], "Unknown hoppers (simulated by others), trained on three, judged on the fourth"
    for form in ("bounce", "kf1"):
        judged = []
        for out in others[:1] if quick else others:
            learned = train_filter(CONFIGURATION, form, [one for one in others if one is not out], settings)
            judged.append(judged_filter(form, learned.entry, out))
            rows.append(filter_row(table, f"{form}, {out.name}", judged[-1:], {}))
            print(rows[-1]["case"], rows[-1]["cells"], flush=True)
        rows.append(filter_row(table, f"{form}, all", judged, TARGETS if form == "bounce" and not quick else {}))
    table, covered = "Unknown hoppers (simulated by others), with what comes with the package", {"covered": 0.97}
    rows += _shipped_rows(table, others, {"m3": 12.0})
    own = {
        name: [simulated("hardware", name, seconds, seed) for seed in seeds[: 2 if quick else None]]
        for name, (_, seeds, seconds) in OWN.items()
    }
    for name, trials in own.items():
        rows += _shipped_rows("Own scenario `hardware`, " + OWN[name][0], trials, covered)
    for event, name in product(("touchdown", "liftoff"), ("bounce", "kf1")):
        rng = np.random.default_rng(5)
        gapped = [_gapped(one, event, rng) for one in (*others, *own["mixed"])]
        table = f"Unknown and own robots, readings lost for 20 to 70 ms around half of the {event}s"
        rows += _shipped_rows(table, gapped, covered, (name,))
    return rows


def _shipped_rows(
    table: str, trials: list[Trial], targets: dict[str, float], names: tuple[str, ...] = FILTERS, case: str = ""
) -> list[Row]:
    """Of filters as they ship; targets are those of `bounce`."""
    judged = {name: [judged_filter(name, filters_of("").entry(name), one) for one in trials] for name in names}
    return [
        filter_row(table, f"{case}{name}", some, targets if name == "bounce" else {}) for name, some in judged.items()
    ]


def _gapped(trial: Trial, event: str, rng: np.random.Generator) -> Trial:
    """Without its readings around some of the events."""
    kept = np.ones(len(trial.time_s), dtype=bool)
    for at_s in getattr(trial.hops.cycles, f"{event}_s"):
        if np.isfinite(at_s) and rng.random() < 0.5:
            long_s = rng.uniform(0.02, 0.07)
            start_s = at_s - rng.uniform(0.0, long_s)
            kept[(trial.time_s >= start_s) & (trial.time_s < start_s + long_s)] = False
    kept[0] = True
    signals, time_s = trial.signals[kept], trial.time_s[kept]
    signals["dt"] = np.diff(time_s, prepend=trial.time_s[0] - trial.signals["dt"][0])
    true = {name: getattr(trial, name)[kept] for name in ("true_height_m", "true_velocity_m_s")}
    return replace(trial, signals=signals, time_s=time_s, **true)


def hopper_foreign(quick: bool) -> list[Row]:
    """Hopper in the scenario `foreign`: effects that no estimator has a term for; all of them, and each alone.

    The filters that come with the package; nothing was tuned to it. All effects: ten robots of `mixed`, 60 s; one at a
    time: the first five of them, with the same draws of everything else. Not `varied`: hops of 0.3 m die on soft
    ground, and a robot that stands is not judged.
    """
    everything, seeds = foreign_scenario(), range(7300, 7302 if quick else 7310)
    effects = [one.name for one in fields(ForeignScenario) if one.default == 0.0]  # a zero switches them off
    trials = [_foreign(everything, seed) for seed in seeds]
    rows = _shipped_rows("Hopper, scenario `foreign`, 1 to 4 m, another every 12 s", trials, {})
    for effect in () if quick else ("", *effects):
        scenario = replace(everything, **{one: 0.0 for one in effects if one != effect})
        trials = [_foreign(scenario, seed) for seed in seeds[:5]]
        rows += _shipped_rows("Hopper, one effect at a time", trials, {}, case=f"{effect or 'none'}, ")
    return rows


def _foreign(scenario: ForeignScenario, seed: int) -> Trial:
    specification = ROBOT.truth_specification(CONFIGURATION)
    simulation = HopperSimulation(CONFIGURATION, "mixed", np.random.default_rng(seed), foreign=scenario)
    loaded = from_simulator(simulation.advance(60_000_000_001), specification.bodies, specification.held)
    return trial_of(CONFIGURATION, f"seed {seed}", loaded)


def hopper_uneven(quick: bool) -> list[Row]:
    """Hopper on ground that steps up or down by 4 cm from hop to hop, heights above the ground of the start.

    Simulated (`uneven`, hops of 1 to 4 m), as shipped, with `ground_changes`; steps are drawn for each seed. A step is
    known no better than the flight before it, so that errors add up: the covariance has to say by how much.
    """
    rows, last_s, seconds = [], 5.0, 78.0
    for name in ("bounce", "kf1"):
        within, last_m = [], []
        for seed in range(7300, 7301 if quick else 7310):
            recording = recorded("uneven", "mixed", seconds, seed)
            judged = judge(ROBOT, HopperConfiguration(ground_changes=True), name, recording)
            error, stddev = judged.parts["height"].error[:, 0], judged.parts["height"].stddev[:, 0]
            within.append(coverage(error, stddev, 3.0))
            last_m.append(abs(np.nanmedian(error[judged.time_s > judged.time_s[-1] - last_s])))
        figure = f"height within 3 sigma {np.mean(within):.3f} (worst run {np.min(within):.3f}); median error of the "
        figure += f"last {last_s:g} of {seconds:g} s {np.median(last_m):.2f} m (worst {np.max(last_m):.2f})"
        rows.append(row(name, figure, *(("0.97", np.mean(within) >= 0.97) if name == "bounce" else ())))
    return rows


def hopper_handled(quick: bool) -> list[Row]:
    """Hopper in somebody's hands: caught out of a hop, carried, thrown, knocked, set down, lifted again."""
    rows = []
    for name in ("bounce", "kf1"):
        found = [judged_hands(name, seed) for seed in range(7200, 7201 if quick else 7206)]
        seconds, apexes, touchdowns, covered, after, rms_m = (np.array(one) for one in zip(*found, strict=True))
        figure = (
            f"{apexes.sum()} hops told in {seconds.sum() / 60.0:.0f} minutes of hands ({touchdowns.sum()} touchdowns); "
            f"height within 3 sigma there {covered.mean():.3f} (worst {covered.min():.3f}), after the second touchdown "
            f"from then on {after.mean():.3f} (worst {after.min():.3f}), RMS {np.median(rms_m):.2f} m "
            f"(worst {rms_m.max():.2f})"
        )
        met = apexes.sum() == 0 and covered.min() >= 0.97 and after.mean() >= 0.97
        rows.append(row(name, figure, "0 hops, 0.97, 0.97", met) if name == "bounce" else row(name, figure))
    return rows


def hopper_sensor_faults(quick: bool) -> list[Row]:
    """A hopper's high-g sensor that is wrong: whether it is found, when, and what the estimate is worth.

    Sound sensors of simulated runs and of the unknown robots (simulated by others), of which none may be left out; then
    the same with the high-g sensor reversed, its axes swapped, or its readings doubled, from the start or from 12 s on.
    """
    sound = [(name, seed) for name in ("hardware", "ideal") for seed in SOUND_SEEDS[: 1 if quick else None]]
    simulated_ones = [("hardware", seed) for seed in SPOILT_SEEDS[: 1 if quick else None]]
    unknown_ones = [("robot", number) for number in range(1, 5)]
    left_out_s = in_turns(_left_out_s, [(one,) for one in (*sound, *unknown_ones)])
    jobs = list(product((*simulated_ones, *unknown_ones), SPOILT, (0.0, _MID_RUN_S)))
    found = in_turns(_found, jobs)
    count = sum(one > 0.0 for one in left_out_s)
    rows = [row("sound sensors that were left out", f"{count} of {len(left_out_s)} runs", "0", count == 0)]
    for spoilt, since_s in product(SPOILT, (0.0, _MID_RUN_S)):
        of_it = [one for one, (_, *what) in zip(found, jobs, strict=True) if what == [spoilt, since_s]]
        rows.append(_fault_row(f"{spoilt} from {since_s:g} s on" if since_s else f"{spoilt} from the start", of_it))
    return rows


def _fault_row(case: str, found: list[Found]) -> Row:
    after_s, touchdowns, before, covered, rms_m = (np.array(one, dtype=np.float64) for one in zip(*found, strict=True))
    figure = (
        f"{np.isfinite(after_s).sum()} of {len(found)} found, after {np.nanmedian(after_s):.1f} s in the median "
        f"(worst {np.nanmax(after_s):.1f}), {np.nanmax(touchdowns):.0f} touchdowns at most; 3 sigma before "
        f"{np.nanmean(before):.3f} (worst {np.nanmin(before):.3f}), after {np.nanmean(covered):.3f} "
        f"(worst {np.nanmin(covered):.3f}), RMS after {np.nanmedian(rms_m):.2f} m (worst {np.nanmax(rms_m):.2f})"
    )
    return row(case, figure, "all found", bool(np.isfinite(after_s).all()))


def _left_out_s(run_of: tuple[str, int]) -> float:
    return float(taken_of(CONFIGURATION, _recording(run_of).series)[1]["at_odds_s"][0])


def _found(run_of: tuple[str, int], spoilt: str, since_s: float) -> Found:
    sound = _recording(run_of)
    start_ns = min(int(one.stamps_ns[0]) for one in sound.series)
    end_s = (max(int(one.stamps_ns[-1]) for one in sound.series) - start_ns) / NANOSECONDS_PER_SECOND
    series = []
    for one in sound.series:
        if one.channel.sensor == HIGH_G.sensor:
            bad = one.stamps_ns >= start_ns + round(since_s * NANOSECONDS_PER_SECOND)
            one = replace(one, values=np.where(bad[:, None], SPOILT[spoilt](one.values), one.values))
        series.append(one)
    wrong = replace(sound, series=tuple(series))
    left_out_s = float(taken_of(CONFIGURATION, wrong.series)[1]["at_odds_s"][0])
    result = judge(ROBOT, CONFIGURATION, ROBOT.estimators[0], wrong)
    at_s = end_s - left_out_s if left_out_s > 0.0 else np.nan
    time_s, height = (result.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND, result.parts["height"]
    error, stddev = height.error[:, 0], height.stddev[:, 0]
    before, after = (time_s >= since_s) & (time_s < at_s), (time_s >= at_s + _STANCE_S) & np.isfinite(error)
    events_s = [
        (one.stamp_ns - start_ns) / NANOSECONDS_PER_SECOND for one in result.phase_events if one.name == "touchdown"
    ]
    return Found(
        at_s - since_s,
        sum(since_s <= one < at_s for one in events_s),
        coverage(error[before], stddev[before], 3.0),
        coverage(error[after], stddev[after], 3.0),
        rms(error[after]) if after.any() else np.nan,
    )


def _recording(run_of: tuple[str, int]) -> LoadedRecording:
    name, number = run_of
    return unknown_recording(f"robot_{number}") if name == "robot" else recorded(name, "mixed", _DURATION_S, number)
