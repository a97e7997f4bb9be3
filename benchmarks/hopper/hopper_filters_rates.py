"""Sensing frequency (the paper's section V and figure 6) for `hopper_filters`: one robot, hops of 3 m, other rates.

The filter is trained at 840 Hz and runs at the rate of the readings, its low-pass filters with the time that has
passed. All runs have one and the same motion, that of the robot without spreads, gusts and sway, controlled by the
truth; what differs is the sensors' noise: twenty draws of it, or none. Aliasing, of shocks, of the mount's resonance
and of the rotors' vibration, is there in both. (The paper's simulated controller has the true state at the sensing
frequency only, so that its robot stops to hop at 50 Hz and below. Here it has it at 400 Hz always.)
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.hopper.hopper_filters_jobs import Job
from benchmarks.hopper.hopper_filters_models import START_S, Search, entry_of, training_job
from hopper_estimation import dynamics
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.estimator import START_DEVIATION
from hopper_estimation.filters import body_of, state_filter
from hopper_estimation.hop_metrics import hop_errors
from hopper_estimation.hop_truth import true_hops
from hopper_estimation.hops import HopEvents, hop_cycles
from hopper_estimation.phases import DROP, STARTUP
from hopper_estimation.scenario import HopperScenario, hopper_scenario
from hopper_estimation.simulator import HopperSimulation
from hopper_estimation.training_trials import taken_of
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.simulation import SET_POSE

Array = NDArray[np.float64]

RATES_HZ = (3360.0, 1680.0, 840.0, 700.0, 600.0, 500.0, 400.0, 300.0, 200.0, 100.0, 50.0, 10.0)
GAIT, HOPPING_S = "3m", 20.0
SHOWN_HZ = 100.0
"""Errors are kept at so many instants a second."""
_TRUTH_STEPS = 20


def same_motion(noisy: bool) -> HopperScenario:
    """The scenario `hardware` with one motion for all; sensors with their noise, or exact but for aliasing."""
    scenario = hopper_scenario()
    spreads = {"stiffness_spread": 0.0, "preload_spread": 0.0, "loss_spread": 0.0, "stop_spread": 0.0}
    leg = replace(scenario.leg, **spreads, ground_spread=0.0, foot_unevenness_m=0.0)
    rotors = replace(scenario.rotors, thrust_spread=0.0, sag_share=0.0, drag_spread=0.0, gust_m_s=0.0)
    capture = replace(scenario.capture, latency_s=0.0, latency_spread_s=0.0, start_stddev_m=1e-6)
    mount = replace(scenario.mount, frequency_spread=0.0, tilt_stddev_deg=0.0, lateral_share=0.0)
    scenario = replace(scenario, leg=leg, rotors=rotors, capture=capture, mount=mount, sway_deg=0.0)
    if noisy:
        return scenario
    exact = {"noise_m_s2": 0.0, "step_m_s2": 0.0, "scale_stddev": 0.0, "drift_m_s2": 0.0}
    return replace(
        scenario,
        low_g=replace(scenario.low_g, **exact),
        high_g=replace(scenario.high_g, **exact),
        jitter_s=0.0,
        lost_share=0.0,
        gyro_noise_rad_s=0.0,
        gyro_bias_rad_s=0.0,
        gyro_shock_rad_s_per_m_s2=0.0,
        attitude=replace(scenario.attitude, error_deg=0.0),
    )


def rate_job(search: Search, training_seed: int, robots: int, rate_hz: float, draws: int) -> Job:
    """To run a filter at a rate."""
    return Job.of(
        "hopper_filters_rates.sensed",
        search=asdict(search),
        training_seed=training_seed,
        robots=robots,
        rate_hz=rate_hz,
        draws=draws,
    )


def sensed(search: dict[str, Any], training_seed: int, robots: int, rate_hz: float, draws: int) -> dict[str, Any]:
    """Errors of height (m) and velocity (m/s) along the run: without noise, and mean and deviation over draws of it."""
    wanted = Search(**search)
    entry = entry_of(wanted.estimator, training_job(wanted, training_seed, robots))
    exact = _run(wanted.estimator, entry, rate_hz, None)
    noisy = [_run(wanted.estimator, entry, rate_hz, draw) for draw in range(draws)]
    errors = np.array([one["errors"] for one in noisy])
    out: dict[str, Any] = {"rate_hz": rate_hz, "time_s": exact["time_s"], "exact": _short(np.array(exact["errors"]))}
    out["mean"], out["deviation"] = _short(errors.mean(axis=0)), _short(errors.std(axis=0))
    out["rms"] = np.sqrt(np.mean(errors**2, axis=(0, 2))).tolist()
    out["hops"] = [{name: one[name] for name in ("hops", "missed", "extra", "m3")} for one in noisy]
    return out


def _run(estimator: str, entry: Any, rate_hz: float, draw: int | None) -> dict[str, Any]:
    """One draw of the noise (None: without)."""
    configuration = HopperConfiguration()
    scenario = replace(same_motion(draw is not None), imu_rate_hz=rate_hz)
    # At low rates the sensors are silent for longer than a fault's silence; without noise a clipped one repeats itself.
    silent_s = max(configuration.sensors.silent_s, 2.5 / rate_hz)
    sensors = replace(configuration.sensors, silent_s=silent_s, stuck_readings=1_000_000)
    configuration = replace(configuration, sensors=sensors)
    rng = np.random.default_rng(700_000 + (draw or 0))
    simulation = HopperSimulation(configuration, GAIT, rng, scenario)
    simulation.trace = []
    recording = simulation.advance(round((START_S + HOPPING_S) * NANOSECONDS_PER_SECOND))
    trace = np.concatenate(simulation.trace)
    truth_s = (1.0 + np.arange(len(trace))) * dynamics.STEP_S
    samples, _ = taken_of(configuration, recording.sensors)
    pose = next(one for one in recording.sensors if one.channel.sensor == SET_POSE)
    first = int(np.searchsorted(samples.stamps_ns, pose.stamps_ns[0]))
    made, body = state_filter(estimator, configuration.robot), body_of(configuration)
    state = made.new_state(configuration.robot.standing_height_m, 0.0, np.diag(np.square(START_DEVIATION)), STARTUP)
    made.run(entry.parameters, body, state, samples.signals[:first])
    zz, zv, vv = entry.start_covariance
    state = made.set_to(state, float(pose.values[0, 2]), 0.0, np.array([[zz, zv], [zv, vv]]), DROP)
    result = made.run(entry.parameters, body, state, samples.signals[first:])
    time_s = samples.stamps_ns[first:] / NANOSECONDS_PER_SECOND
    at_s = START_S + np.arange(1, int(HOPPING_S * SHOWN_HZ) - 1) / SHOWN_HZ
    # The estimate in force at each instant: the last one, moved on by nothing.
    row = np.clip(np.searchsorted(time_s, at_s, side="right") - 1, 0, len(time_s) - 1)
    place = np.searchsorted(truth_s, time_s[row] - 0.5 * dynamics.STEP_S)
    true = trace[place][:, [dynamics.T_HEIGHT, dynamics.T_VELOCITY]]
    error = result.out[row, :2] - true
    hops = true_hops(
        truth_s[::_TRUTH_STEPS], trace[::_TRUTH_STEPS, dynamics.T_HEIGHT], configuration.robot.standing_height_m, 0.0
    )
    kinds = result.events["kind"]
    seen_s = time_s[result.events["sample"]]
    events = HopEvents.of(kinds, seen_s - entry.event_delay_s[kinds], seen_s, result.events["height"])
    cycles = hop_cycles(events, time_s, result.out[:, 0], configuration.robot.standing_height_m)
    judged = hop_errors(estimator, hops, time_s, result.out[:, 0], result.out[:, 1], cycles)
    known = judged.values["m3"][np.isfinite(judged.values["m3"])]
    return {
        "time_s": at_s.tolist(),
        "errors": error.T.tolist(),
        "hops": len(judged),
        "missed": judged.matches.missed,
        "extra": len(judged.matches.extra),
        "m3": float(known.mean()) if len(known) else float("nan"),
    }


def _short(values: Array) -> list[Any]:
    return [[float(f"{value:.4g}") for value in row] for row in values]
