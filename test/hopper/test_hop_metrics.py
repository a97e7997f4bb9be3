"""Hops and their errors: events of motion capture against exact ones, metrics against plain loops, matching, tables."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import numpy as np
import pytest
from hop_samples import STANDING_M, Hopped, hop
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper_estimation.judging.hop_metrics import commands_at, hop_errors
from hopper_estimation.judging.hop_truth import TrueHops, true_hops
from hopper_estimation.judging.hops import HopCycles, HopEvents, event_summary, hop_cycles, match_cycles, match_events
from hopper_estimation.judging.local_polynomials import local_quadratics
from hopper_estimation.model.phases import APEX, LIFTOFF, MAX_SQUAT, TOUCHDOWN
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import PhaseEvent

NOISE_M = 3e-4
GROUNDS_M = (0.0, 0.05, 0.12, 0.02, -0.06, 0.0, 0.1)


@cache
def flat() -> Hopped:
    return hop(3.0, 10, rebound_thrust=6.5)


@cache
def uneven() -> Hopped:
    return hop(4.0, 6, GROUNDS_M, rebound_thrust=6.5)


def exact(run: Hopped) -> list[np.ndarray]:
    return [np.array(one) for one in (run.touchdown_s, run.squat_s, run.liftoff_s, run.apex_s)]


def noisy(run: Hopped, seed: int = 0, stop_s: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    time, height, _ = run.track(stop_s=stop_s)
    return time, height + NOISE_M * np.random.default_rng(seed).normal(size=len(time))


def assert_events(found: TrueHops, run: Hopped, within_s: tuple[float, float, float, float]) -> None:
    """All events but the last apex, which ends the recording, each within its time."""
    for kind, (times, limit) in enumerate(zip(exact(run), within_s, strict=True)):
        told = found.events.times_s(kind)[: len(times) - (kind == APEX)]
        wanted = times[: len(told)]
        assert len(told) >= len(times) - (kind == APEX), kind
        np.testing.assert_allclose(told, wanted, rtol=0.0, atol=limit, err_msg=str(kind))


# Truth.


def test_level_ground() -> None:
    found = true_hops(*noisy(flat()), STANDING_M)
    # Touchdown and liftoff are crossings at speed; the apex is flat, and its thrust ends within a sample.
    assert_events(found, flat(), (3e-4, 6e-4, 3e-4, 8e-3))
    assert found.unseen_events == 0
    assert found.unknown_s.size == 0
    np.testing.assert_allclose(found.cycles.hop_height_m, np.array(flat().apex_m[:-1]) - STANDING_M, atol=1e-3)
    assert np.isnan(found.cycles.previous_apex_s[0])
    np.testing.assert_allclose(
        found.cycles.drop_s[1:], np.array(flat().touchdown_s[1:-1]) - flat().apex_s[:-2], atol=8e-3
    )


def test_exact_heights_give_exact_events() -> None:
    time, height, _ = flat().track()
    assert_events(true_hops(time, height, STANDING_M), flat(), (2e-5, 3e-4, 2e-5, 3e-3))


def test_ground_of_unknown_height() -> None:
    time, height, _ = uneven().track()
    found = true_hops(time, height, STANDING_M, ground_m=None)
    np.testing.assert_allclose(found.ground_m, GROUNDS_M, atol=1.5e-3)
    found = true_hops(*noisy(uneven()), STANDING_M, ground_m=None)
    np.testing.assert_allclose(found.ground_m, GROUNDS_M, atol=8e-3)
    assert_events(found, uneven(), (2e-3, 6e-4, 2e-3, 8e-3))
    # On level ground taken for granted, the same track would be off by the step over the speed.
    wrong = true_hops(*noisy(uneven()), STANDING_M).events.times_s(TOUCHDOWN)
    assert np.max(np.abs(wrong - uneven().touchdown_s)) > 0.01


def test_stated_uncertainty_of_the_ground() -> None:
    errors = []
    for seed in range(8):
        found = true_hops(*noisy(flat(), seed), STANDING_M, ground_m=None)
        errors.append(found.ground_m / found.ground_stddev_m)
    together = np.concatenate(errors)
    assert 0.7 < np.sqrt(np.mean(together**2)) < 1.4
    assert np.abs(together).max() < 5.0


@pytest.mark.parametrize("lost", [0.1, 0.3])
def test_lost_frames(lost: float) -> None:
    time, height = noisy(flat())
    height[np.random.default_rng(1).random(len(time)) < lost] = np.nan
    found = true_hops(time, height, STANDING_M)
    assert_events(found, flat(), (4e-4, 8e-4, 4e-4, 1e-2))
    assert len(found.cycles) == 10


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_half_of_the_frames_lost(seed: int) -> None:
    """Noise that thin samples let pass for contact in flight makes no stances."""
    time, height = noisy(flat(), seed)
    height[np.random.default_rng(seed).random(len(time)) < 0.5] = np.nan
    found = true_hops(time, height, STANDING_M)
    assert len(found.events.times_s(TOUCHDOWN)) == len(found.events.times_s(LIFTOFF)) == 11
    assert len(found.cycles) == 10


@pytest.mark.parametrize(("gap_s", "cycles"), [(0.06, 10), (0.12, 10), (0.25, 5), (0.5, 5)])
def test_gaps_at_touchdown(gap_s: float, cycles: int) -> None:
    """Short gaps are bridged by the flights around them; over long ones no hop is made up, nor two made one."""
    time, height = noisy(flat())
    for touchdown in flat().touchdown_s[2::4]:
        height[np.abs(time - touchdown - gap_s / 6.0) < 0.5 * gap_s] = np.nan
    found = true_hops(time, height, STANDING_M)
    assert len(found.cycles) == cycles
    touchdowns = exact(flat())[TOUCHDOWN]
    for begin, end in zip(found.cycles.touchdown_s, found.cycles.next_touchdown_s, strict=True):
        assert np.sum((touchdowns > begin - 1e-2) & (touchdowns < end + 1e-2)) == 2
        assert np.abs(touchdowns - begin).min() < 2e-3
    assert len(found.unknown_s) == (0 if cycles == 10 else 3)


def test_apex_in_a_gap_is_not_told() -> None:
    time, height = noisy(flat())
    height[np.abs(time - flat().apex_s[3]) < 0.05] = np.nan
    found = true_hops(time, height, STANDING_M)
    assert np.isnan(found.cycles.apex_s).tolist() == [False] * 3 + [True] + [False] * 6
    assert found.unseen_events == 1


def test_standing_hovering_and_slow_landing_are_no_hops() -> None:
    rng = np.random.default_rng(3)
    time = np.arange(0.0, 20.0, 1.0 / 600.0)
    height = STANDING_M + 0.5 * np.interp(time, [0, 5, 8, 12, 15, 20], [0, 0, 1, 1, 0, 0])
    found = true_hops(time, height + NOISE_M * rng.normal(size=len(time)), STANDING_M)
    assert len(found.events.kind) == len(found.cycles) == 0
    assert found.unseen_events == 0


def test_robot_that_lands_and_stays() -> None:
    """The last touchdown ends the last hop, though no liftoff follows."""
    time, height = noisy(flat(), stop_s=flat().squat_s[4])
    rest = np.arange(1, 1200) / 600.0
    noise = NOISE_M * np.random.default_rng(4).normal(size=len(rest))
    low = height[-1]
    time, height = np.append(time, time[-1] + rest), np.append(height, low + noise)
    found = true_hops(time, height, STANDING_M)
    assert len(found.cycles) == 4
    assert len(found.events.times_s(LIFTOFF)) == 4


def test_refused_tracks() -> None:
    time, height, _ = flat().track()
    with pytest.raises(UserError, match="60 Hz"):
        true_hops(time[::10], height[::10], STANDING_M)
    with pytest.raises(UserError, match="0 heights"):
        true_hops(time, np.full(len(time), np.nan), STANDING_M)


@given(st.integers(0, 2**31))
@settings(max_examples=20)
def test_local_parabolas(seed: int) -> None:
    """On samples of a parabola at random times they are exact; against polyfit on noise."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.uniform(0.5, 1.5, 200)) / 600.0
    c = rng.normal(size=3)
    level, slope, bend = local_quadratics(time, c[0] + c[1] * time + c[2] * time**2, 0.0125)
    inner = slice(15, -15)
    np.testing.assert_allclose(level[inner], (c[0] + c[1] * time + c[2] * time**2)[inner], atol=1e-9)
    np.testing.assert_allclose(slope[inner], (c[1] + 2.0 * c[2] * time)[inner], atol=1e-7)
    np.testing.assert_allclose(bend[inner], 2.0 * c[2], atol=1e-5)
    value = rng.normal(size=200)
    _, slope, bend = local_quadratics(time, value, 0.0125)
    near = np.abs(time - time[100]) <= 0.0125
    fit = np.polyfit(time[near] - time[100], value[near], 2)
    np.testing.assert_allclose([slope[100], bend[100]], [fit[1], 2.0 * fit[0]], rtol=1e-6)
    assert np.isnan(slope[0])


# Cycles.


def test_cycles_of_events() -> None:
    kinds = [TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX, APEX, TOUCHDOWN, LIFTOFF, TOUCHDOWN, APEX, TOUCHDOWN]
    times = [1.0, 1.03, 1.07, 1.5, 1.6, 2.0, 2.07, 3.0, 3.5, 30.0]
    heights = [np.nan] * 3 + [1.4, 9.0] + [np.nan] * 5
    shuffled = np.random.default_rng(0).permutation(len(kinds))
    events = HopEvents.of(np.array(kinds)[shuffled], np.array(times)[shuffled], None, np.array(heights)[shuffled])
    cycles = hop_cycles(events, [0.0, 40.0], [0.0, 4.0], STANDING_M, longest_cycle_s=5.0)
    # The last touchdown is too far from the one before it to be of one hop.
    np.testing.assert_array_equal(cycles.touchdown_s, [1.0, 2.0])
    np.testing.assert_array_equal(cycles.apex_s, [1.5, np.nan])
    np.testing.assert_array_equal(cycles.liftoff_s, [1.07, 2.07])
    np.testing.assert_array_equal(cycles.max_squat_s, [1.03, np.nan])
    np.testing.assert_array_equal(cycles.previous_apex_s, [np.nan, 1.5])
    np.testing.assert_array_equal(cycles.apex_height_m, [1.4, np.nan])
    np.testing.assert_allclose(cycles.drop_height_m, [np.nan, 1.4 - STANDING_M])
    assert len(hop_cycles(events, [0.0, 40.0], [0.0, 4.0], STANDING_M, breaks_s=[1.2])) == 1
    # Without a height of its own, the apex has the trajectory's.
    bare = HopEvents.of(kinds, times)
    assert hop_cycles(bare, [0.0, 40.0], [0.0, 4.0], STANDING_M).apex_height_m[0] == pytest.approx(0.15)


def test_events_of_an_estimator() -> None:
    seen = [
        PhaseEvent("touchdown", 2_000_000_000, 2_010_000_000, 0.001, 1),
        PhaseEvent("something", 2_100_000_000, 2_110_000_000, 0.001, 1),
        PhaseEvent("apex", 1_500_000_000, 1_520_000_000, 0.001, 0, 1.25),
    ]
    events = HopEvents.from_phase_events(seen, 1_000_000_000)
    np.testing.assert_array_equal(events.kind, [APEX, TOUCHDOWN])
    np.testing.assert_allclose(events.happened_s, [0.5, 1.0])
    np.testing.assert_allclose(events.seen_s, [0.52, 1.01])
    assert events.height_m[0] == 1.25


# Matching.


def cycles_between(starts, stops) -> HopCycles:
    blank = np.full(len(starts), np.nan)
    values = {one.name: blank for one in fields(HopCycles)}
    values |= {"touchdown_s": np.array(starts, float), "next_touchdown_s": np.array(stops, float)}
    return HopCycles(**{**values, "ground_m": np.zeros(len(starts)), "standing_height_m": STANDING_M})


def brute_matches(true: HopCycles, told: HopCycles) -> set[tuple[int, int]]:
    pairs = set()
    for i, (a, b) in enumerate(zip(true.touchdown_s, true.next_touchdown_s, strict=True)):
        for j, (c, d) in enumerate(zip(told.touchdown_s, told.next_touchdown_s, strict=True)):
            if max(0.0, min(b, d) - max(a, c)) > 0.75 * (max(b, d) - min(a, c)):
                pairs.add((i, j))
    return pairs


@given(
    st.lists(st.floats(0.1, 2.0), min_size=1, max_size=12),
    st.lists(st.floats(0.1, 2.0), min_size=1, max_size=12),
    st.floats(-1.0, 1.0),
)
def test_matching_is_one_to_one(true_lengths, told_lengths, offset: float) -> None:
    edges, other = np.cumsum([0.0, *true_lengths]), offset + np.cumsum([0.0, *told_lengths])
    true, told = cycles_between(edges[:-1], edges[1:]), cycles_between(other[:-1], other[1:])
    found = match_cycles(true, told, (-10.0, 100.0))
    pairs = {(i, int(j)) for i, j in enumerate(found.partner) if j >= 0}
    assert pairs == brute_matches(true, told)
    assert len({j for _, j in pairs}) == len(pairs)
    # Nothing is lost: each hop is in a pair, missed, or extra.
    assert len(pairs) + found.missed == len(true)
    assert len(pairs) + len(found.extra) == len(told)


def test_missed_touchdown_and_double_trigger() -> None:
    true = cycles_between([0, 1, 2, 3], [1, 2, 3, 4])
    merged = match_cycles(true, cycles_between([0, 1, 3], [1, 3, 4]))
    assert merged.partner.tolist() == [0, -1, -1, 2]
    assert merged.extra.tolist() == [1]
    split = match_cycles(true, cycles_between([0, 1, 1.2, 2, 3], [1, 1.2, 2, 3, 4]))
    assert split.partner.tolist() == [0, 2, 3, 4]
    assert split.extra.tolist() == [1]
    # Hops where the truth is not known are not held against the estimate.
    assert match_cycles(true, cycles_between([0, 1, 1.2], [1, 1.2, 2]), unknown_s=[(1.0, 2.0)]).extra.tolist() == []


def test_event_timing() -> None:
    true = HopEvents.of([TOUCHDOWN] * 4 + [APEX], [1.0, 2.0, 3.0, 4.0, 3.5])
    told = HopEvents.of(
        [TOUCHDOWN] * 5, [1.01, 1.02, 2.03, 3.9, 9.0], [1.03, 1.04, 2.05, 3.95, 9.1]
    )  # a double trigger, one missed, one early, one outside
    timing = match_events(true, told, TOUCHDOWN)
    np.testing.assert_allclose(timing.true_s, [1.0, 2.0, 4.0])
    np.testing.assert_allclose(timing.error_s, [0.01, 0.03, -0.1])
    np.testing.assert_allclose(timing.delay_s, [0.03, 0.05, -0.05])
    assert (timing.missed, timing.extra) == (1, 1)
    assert match_events(true, told, TOUCHDOWN, (0.0, 10.0)).extra == 2
    assert match_events(true, told, TOUCHDOWN, (0.0, 10.0), [(5.0, 10.0)]).extra == 1
    figures = event_summary(true, told)
    assert figures["apex"] == {"matched": 0, "missed": 1, "extra": 0}
    assert figures["touchdown"]["time_error_abs_median_s"] == pytest.approx(0.03)
    assert figures["touchdown"]["time_error_abs_95_percent_s"] == pytest.approx(np.quantile([0.01, 0.03, 0.1], 0.95))


@given(st.integers(0, 2**31))
@settings(max_examples=50)
def test_event_counts_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = HopEvents.of(np.zeros(8, int), np.arange(8.0) + rng.uniform(-0.3, 0.3, 8))
    kept = true.happened_s[rng.random(8) > 0.3] + 0.03 * rng.normal()
    false = rng.uniform(0.0, 7.0, rng.integers(0, 4))
    told = HopEvents.of(np.zeros(len(kept) + len(false), int), np.concatenate((kept, false)))
    timing = match_events(true, told, TOUCHDOWN, (-1.0, 9.0))
    assert len(timing.error_s) + timing.missed == 8
    assert len(timing.error_s) + timing.extra == len(told.kind)
    assert len(np.unique(timing.true_s)) == len(timing.true_s)


# Metrics.


def estimated(run: Hopped, seed: int, shift_s: float = 0.01) -> tuple[np.ndarray, np.ndarray, np.ndarray, HopEvents]:
    """An estimate at 840 Hz with smooth errors, and its events, late by `shift_s`."""
    rng = np.random.default_rng(seed)
    time, height, velocity = run.track(840.0)
    phase = rng.uniform(0.0, 6.0)
    height = height + 0.1 * np.sin(1.3 * time + phase)
    velocity = velocity + 0.2 * np.cos(1.7 * time + phase)
    kinds, times = [], []
    for kind, happened in enumerate(exact(run)):
        kinds += [kind] * len(happened)
        times += (happened + shift_s * rng.uniform(0.5, 1.5, len(happened))).tolist()
    return time, height, velocity, HopEvents.of(kinds, times, np.array(times) + 0.005)


@pytest.mark.parametrize("part", ["cycle", "aerial"])
def test_metrics_by_plain_loops(part) -> None:
    run = flat()
    time, true_height, true_velocity = run.track()
    truth = true_hops(time, true_height, STANDING_M, velocity_m_s=true_velocity)
    at, height, velocity, events = estimated(run, 1)
    cycles = hop_cycles(events, at, height, STANDING_M)
    found = hop_errors("kf1", truth, at, height, velocity, cycles, command_m=2.0, part=part)
    m1, m1_standing, m2, m3, m4, m5 = ([] for _ in range(6))
    for k in range(10):
        begin, end = run.touchdown_s[k], run.touchdown_s[k + 1]
        if part == "aerial":
            begin, end = cycles.liftoff_s[k], cycles.next_touchdown_s[k]
        upper = lower = standing = faster = speeds = 0.0
        for t, z, v in zip(time, true_height, true_velocity, strict=True):
            if begin <= t < end:
                upper += abs(np.interp(t, at, height) - z)
                lower += z
                standing += z - STANDING_M
                faster += abs(np.interp(t, at, velocity) - v)
                speeds += abs(v)
        m1.append(100 * upper / lower)
        m1_standing.append(100 * upper / standing)
        m2.append(100 * faster / speeds)
        top = run.apex_m[k] - STANDING_M
        told = next(t for t in events.times_s(APEX) if run.touchdown_s[k] < t < run.touchdown_s[k + 1])
        m3.append(100 * abs(np.interp(told, at, height) - STANDING_M - top) / top)
        m4.append(abs(told - run.apex_s[k]))
        m5.append(abs(top - 2.0))
    np.testing.assert_allclose(found.values["m1"], m1, rtol=2e-3)
    np.testing.assert_allclose(found.m1_from_standing, m1_standing, rtol=2e-3)
    np.testing.assert_allclose(found.values["m2"], m2, rtol=2e-3)
    np.testing.assert_allclose(found.values["m3"], m3, atol=0.01)
    np.testing.assert_allclose(found.values["m4"], m4, atol=3e-3)
    np.testing.assert_allclose(found.values["m5"], m5, atol=1e-3)
    figures = found.summary()
    assert figures["m3_apex_height_mape_percent"] == pytest.approx(np.mean(m3), abs=0.01)
    assert (figures["hops"], figures["missed_hops"], figures["extra_hops"]) == (10, 0, 0)


def test_noise_of_motion_capture_hardly_moves_the_metrics() -> None:
    at, height, velocity, events = estimated(flat(), 2)
    cycles = hop_cycles(events, at, height, STANDING_M)
    time, true_height, true_velocity = flat().track()
    clean = true_hops(time, true_height, STANDING_M, velocity_m_s=true_velocity)
    seen = true_hops(*noisy(flat()), STANDING_M)
    one, other = (hop_errors("kf1", truth, at, height, velocity, cycles).summary() for truth in (clean, seen))
    assert other["m1_height_nmae_percent"] == pytest.approx(one["m1_height_nmae_percent"], abs=0.05)
    assert other["m2_velocity_nmae_percent"] == pytest.approx(one["m2_velocity_nmae_percent"], abs=0.3)
    assert other["m3_apex_height_mape_percent"] == pytest.approx(one["m3_apex_height_mape_percent"], abs=0.1)
    assert other["m4_apex_time_mae_s"] == pytest.approx(one["m4_apex_time_mae_s"], abs=2e-3)
    assert "m5_apex_height_to_command_mae_m" not in one


def test_missed_hops_are_counted_and_still_have_a_trajectory() -> None:
    time, true_height, true_velocity = flat().track()
    truth = true_hops(time, true_height, STANDING_M, velocity_m_s=true_velocity)
    at, height, velocity, events = estimated(flat(), 3)
    kept = np.ones(len(events.kind), bool)
    kept[np.flatnonzero(events.kind == TOUCHDOWN)[4]] = False
    kept[np.flatnonzero(events.kind == APEX)[7]] = False
    fewer = HopEvents(*(getattr(events, one.name)[kept] for one in fields(HopEvents)))
    found = hop_errors("kf1", truth, at, height, velocity, hop_cycles(fewer, at, height, STANDING_M))
    figures = found.summary()
    assert (figures["missed_hops"], figures["extra_hops"], figures["hops_without_apex"]) == (2, 1, 3)
    assert np.isfinite(found.values["m1"]).all()
    assert np.flatnonzero(np.isnan(found.values["m3"])).tolist() == [3, 4, 7]
    seen = figures["m3_apex_height_mape_percent"]
    assert figures["m3_with_missed_hops_percent"] == pytest.approx(0.7 * seen + 30.0)


def test_estimates_that_are_no_numbers_or_too_short() -> None:
    time, true_height, true_velocity = flat().track()
    truth = true_hops(time, true_height, STANDING_M, velocity_m_s=true_velocity)
    at, height, velocity, events = estimated(flat(), 4)
    cycles = hop_cycles(events, at, height, STANDING_M)
    broken = height.copy()
    broken[np.searchsorted(at, flat().apex_s[2])] = np.nan
    found = hop_errors("kf1", truth, at, broken, velocity, cycles)
    assert np.flatnonzero(np.isinf(found.values["m1"])).tolist() == [2]
    short = at < flat().apex_s[6]
    found = hop_errors("kf1", truth, at[short], height[short], velocity[short], cycles)
    assert found.summary()["hops_without_trajectory"] == 4
    assert np.isfinite(found.summary()["m1_height_nmae_percent"])


def test_heights_above_the_ground_last_left() -> None:
    """An estimate that knows only the ground under it has no error against truth taken from that ground."""
    run = uneven()
    time, true_height, true_velocity = run.track()
    truth = true_hops(time, true_height, STANDING_M, ground_m=None, velocity_m_s=true_velocity)
    at, height, velocity, events = estimated(run, 5, 0.0)
    height = np.interp(at, time, true_height)
    left = np.searchsorted(run.touchdown_s, at, side="right") - 1
    local = height - np.array(run.ground_m)[np.maximum(left, 0)]
    found = hop_errors("kf1", truth, at, local, velocity, hop_cycles(events, at, local, STANDING_M), from_ground=True)
    assert found.summary()["m1_height_nmae_percent"] < 0.3
    assert found.summary()["m3_apex_height_mape_percent"] < 0.2
    absolute = hop_errors("kf1", truth, at, height, velocity, hop_cycles(events, at, height, STANDING_M))
    assert absolute.summary()["m1_height_nmae_percent"] < 0.3
    assert absolute.summary()["m3_apex_height_mape_percent"] < 0.2
    mixed = hop_errors("kf1", truth, at, local, velocity, hop_cycles(events, at, local, STANDING_M))
    assert mixed.summary()["m1_height_nmae_percent"] > 2.0


def test_command_in_force_at_the_apex() -> None:
    found = commands_at([0.5, 1.5, 2.0, 9.0, np.nan], [1.0, 2.0], [3.0, 4.0])
    np.testing.assert_array_equal(found, [np.nan, 3.0, 4.0, 4.0, np.nan])
    np.testing.assert_array_equal(commands_at([0.5], [], []), [np.nan])
