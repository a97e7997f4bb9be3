"""Pictures of `docs/hopper.md`, all simulated: a hop, the error at several sensing frequencies, the cost's sensitivity.

Sensing frequency (the paper's section V and figure 6): KF1, the package's own, runs at the rate of the readings. All
runs have one and the same motion, that of the robot without spreads, gusts and sway, controlled by the truth; what
differs is the sensors' noise: twenty draws of it, or none. Aliasing, of shocks, of the mount's resonance and of the
rotors' vibration, is there in both. (The paper's simulated controller has the true state at the sensing frequency only,
so that its robot stops to hop at 50 Hz and below. Here it has it at 400 Hz always.)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.hopper.trials import CONFIGURATION, START_S, at_heights
from hopper_estimation.estimators.estimator import START_DEVIATION
from hopper_estimation.estimators.filters import body_of, filters_of, state_filter
from hopper_estimation.estimators.samples import taken_of
from hopper_estimation.model import dynamics, phases
from hopper_estimation.model.configuration import HIGH_G, LOW_G
from hopper_estimation.model.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP, STARTUP
from hopper_estimation.simulation.scenario import HopperScenario, hopper_scenario
from hopper_estimation.simulation.simulator import HopperSimulation
from hopper_estimation.training.filter_training import FilterObjective
from hopper_estimation.training.training import write_sensitivity
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import SET_POSE
from onboard_estimation.contract.picture import TRUTH_COLOUR
from onboard_estimation.learning.optimisation.problem import sensitivity

Array = NDArray[np.float64]

FOLDER = Path(__file__).parents[2] / "docs"
RATES_HZ = (3360.0, 840.0, 600.0, 400.0, 200.0, 100.0)
HOPPING_S, SHOWN_HZ, SHOWN_S = 20.0, 100.0, 12.0
CHANGES_PERCENT = tuple(float(change) for change in range(-20, 21, 2) if change)
PHASE_COLOURS = {DROP: "#F1F1F1", STANCE_DOWN: "#FBDDBE", STANCE_UP: "#FFF1B8", REBOUND: "#DDEEF9"}
_STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8.5,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
}
_VERTICAL = 5
"""Channel of an IMU: three rates, then the acceleration along x, y and z."""


def hopper_pictures(quick: bool) -> list[dict[str, Any]]:
    """Pictures of the hopper's page: a hop, error at several sensing frequencies, sensitivity of the cost."""
    if not quick:
        _save(hop_figure(simulated_hop("2m", 1, 3)), FOLDER / "hopper_hop.png")
        write_cost_sensitivity(range(900_000, 900_008), FOLDER / "hopper_sensitivity.png")
    found = {rate: sensed(rate, 2 if quick else 20) for rate in (RATES_HZ[1:2] if quick else RATES_HZ)}
    if not quick:
        _save(rate_figure(found), FOLDER / "hopper_sensing_frequency.png")
    figures = {rate: np.sqrt(np.mean(noisy**2, axis=(0, 2))) for rate, (noisy, _) in found.items()}
    return [
        {"case": f"sensing at {rate:g} Hz", "figure": f"RMS {one[0]:.3g} m, {one[1]:.3g} m/s"}
        for rate, one in figures.items()
    ]


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})


class Hop(NamedTuple):
    """One hop, apex to apex: (K, 4) time, height above standing, velocity, phase; (M, 3) time, low-g, high-g."""

    motion: Array
    readings: Array

    def begins_s(self, phase: int) -> float:
        """Of a phase."""
        return float(self.motion[np.argmax(self.motion[:, 3] == phase), 0])


def simulated_hop(variant: str, seed: int, number: int) -> Hop:
    """Cut out of a run; hops count from 1, the first begins at the first apex after the drop."""
    simulation = HopperSimulation(CONFIGURATION, variant, np.random.default_rng(seed))
    simulation.trace = []
    by_topic = {one.channel.topic: one for one in simulation.advance(60 * NANOSECONDS_PER_SECOND).sensors}
    low, high = by_topic[LOW_G.topic], by_topic[HIGH_G.topic]
    trace = np.concatenate(simulation.trace)
    phase = trace[:, dynamics.T_PHASE]
    apexes = np.flatnonzero((phase[:-1] == REBOUND) & (phase[1:] == DROP)) + 1
    rows = np.arange(apexes[number - 1], apexes[number] + 1)
    time_s = (rows + 1) * dynamics.STEP_S  # a row is the state at the end of its step
    height_m = trace[rows, dynamics.T_HEIGHT] - CONFIGURATION.robot.standing_height_m
    motion = np.column_stack([time_s, height_m, trace[rows, dynamics.T_VELOCITY], phase[rows]])
    readings = np.column_stack([1e-9 * low.stamps_ns, low.values[:, _VERTICAL], high.values[:, _VERTICAL]])
    return Hop(motion, readings[(readings[:, 0] >= time_s[0]) & (readings[:, 0] <= time_s[-1])])


def hop_figure(hop: Hop) -> Figure:
    """Height, velocity and readings over a hop, and over its stance enlarged; phases by colour."""
    begins = [hop.motion[0, 0], *(hop.begins_s(one) for one in (STANCE_DOWN, STANCE_UP, REBOUND)), hop.motion[-1, 0]]
    with style.context(_STYLE, after_reset=True):  # the user's own matplotlibrc must not change the file
        figure = Figure(figsize=(9.0, 6.6), dpi=110.0, layout="constrained")
        grid = figure.subplots(3, 2, sharex="col", width_ratios=(1.35, 1.0))
        spans = ((begins[0], begins[-1], 1.0), (begins[1] - 0.02, begins[3] + 0.02, 1e3))
        for column, (from_s, until_s, scale) in zip(grid.T, spans, strict=True):
            shown, read = (one[(one[:, 0] >= from_s) & (one[:, 0] <= until_s)] for one in hop)
            for axes, value in zip(column, (1, 2), strict=False):
                axes.plot(scale * (shown[:, 0] - begins[1]), shown[:, value], color=TRUTH_COLOUR, label="true")
            for value, colour, name in ((2, "#CC79A7", "high-g accelerometer"), (1, "#009E73", "low-g accelerometer")):
                marker = "." if scale > 1.0 else ""  # single readings can be told apart only in the enlargement
                column[2].plot(
                    scale * (read[:, 0] - begins[1]), read[:, value], color=colour, marker=marker, label=name
                )
            for axes in column:
                for (phase, colour), start_s, stop_s in zip(PHASE_COLOURS.items(), begins, begins[1:], strict=False):
                    ends = (scale * (one - begins[1]) for one in (start_s, stop_s))
                    axes.axvspan(
                        *ends, color=colour, linewidth=0.0, zorder=0.0, label=phases.PHASES[phase].replace("_", " ")
                    )
                axes.set_xlim(scale * (from_s - begins[1]), scale * (until_s - begins[1]))
        for axes, words in zip(
            grid[:, 0],
            ("height above standing (m)", "velocity (m/s)", "specific force\nalong the leg (m/s$^2$)"),
            strict=True,
        ):
            axes.set_ylabel(words)
        for axes, words in zip(grid[2], ("time since touchdown (s)", "time since touchdown (ms)"), strict=True):
            axes.set_xlabel(words)
        grid[0, 0].set_title("a hop, apex to apex", loc="left")
        grid[0, 1].set_title("its stance", loc="left")
        named = dict(one[::-1] for axes in grid[::2, 0] for one in zip(*axes.get_legend_handles_labels(), strict=True))
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4)
    return figure


def write_cost_sensitivity(seeds: range, path: Path) -> None:
    """By how much the training cost of KF1 changes with each parameter, the others as they ship (figure 4)."""
    trials = at_heights(seeds, {"1m": 5.2, "2m": 7.2, "3m": 8.8, "4m": 10.6})
    objective = FilterObjective(CONFIGURATION, "kf1", trials, 1)
    shipped = filters_of("").entry("kf1").parameters[list(objective.places)]
    found = sensitivity(objective.problem(), objective, shipped, CHANGES_PERCENT)
    write_sensitivity(
        found, path, "KF1: change of the training cost when one parameter changes, the others as they ship"
    )


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
    none = dict.fromkeys(
        ("jitter_s", "lost_share", "gyro_noise_rad_s", "gyro_bias_rad_s", "gyro_shock_rad_s_per_m_s2"), 0.0
    )
    sensors = {"low_g": replace(scenario.low_g, **exact), "high_g": replace(scenario.high_g, **exact)}
    return replace(scenario, **sensors, **none, attitude=replace(scenario.attitude, error_deg=0.0))


def sensed(rate_hz: float, draws: int) -> tuple[Array, Array]:
    """(D, 2, K) errors of height (m) and velocity (m/s) along the run for each draw of the noise, (2, K) without."""
    return np.array([_errors(rate_hz, draw) for draw in range(draws)]), _errors(rate_hz, None)


def _errors(rate_hz: float, draw: int | None) -> Array:
    """One draw of the noise (None: without)."""
    # At low rates the sensors are silent for longer than a fault's silence; without noise a clipped one repeats itself.
    silent_s = max(CONFIGURATION.sensors.silent_s, 2.5 / rate_hz)
    sensors = replace(CONFIGURATION.sensors, silent_s=silent_s, stuck_readings=1_000_000)
    configuration, rng = replace(CONFIGURATION, sensors=sensors), np.random.default_rng(700_000 + (draw or 0))
    scenario = replace(same_motion(draw is not None), imu_rate_hz=rate_hz)
    simulation = HopperSimulation(configuration, "3m", rng, scenario)
    simulation.trace = []
    recording = simulation.advance(round((START_S + HOPPING_S) * NANOSECONDS_PER_SECOND))
    trace = np.concatenate(simulation.trace)
    truth_s = (1.0 + np.arange(len(trace))) * dynamics.STEP_S
    samples, _ = taken_of(configuration, recording.sensors)
    pose = next(one for one in recording.sensors if one.channel.sensor == SET_POSE)
    first = int(np.searchsorted(samples.stamps_ns, pose.stamps_ns[0]))
    entry, standing_m = filters_of("").entry("kf1"), configuration.robot.standing_height_m
    made, body = state_filter("kf1", configuration.robot), body_of(configuration)
    state = made.new_state(standing_m, 0.0, np.diag(np.square(START_DEVIATION)), STARTUP)
    made.run(entry.parameters, body, state, samples.signals[:first])
    zz, zv, vv = entry.start_covariance
    state = made.set_to(state, float(pose.values[0, 2]), 0.0, np.array([[zz, zv], [zv, vv]]), DROP)
    result = made.run(entry.parameters, body, state, samples.signals[first:])
    time_s = samples.stamps_ns[first:] / NANOSECONDS_PER_SECOND
    at_s = START_S + np.arange(1, int(HOPPING_S * SHOWN_HZ) - 1) / SHOWN_HZ
    # The estimate in force at each instant: the last one, moved on by nothing.
    row = np.clip(np.searchsorted(time_s, at_s, side="right") - 1, 0, len(time_s) - 1)
    place = np.searchsorted(truth_s, time_s[row] - 0.5 * dynamics.STEP_S)
    error: Array = (result.out[row, :2] - trace[place][:, [dynamics.T_HEIGHT, dynamics.T_VELOCITY]]).T
    return error


def rate_figure(found: dict[float, tuple[Array, Array]]) -> Figure:
    """Mean and standard deviation of the errors over draws of the noise, and the error without noise."""
    with style.context(_STYLE, after_reset=True):
        figure = Figure(figsize=(11.0, 5.2), dpi=110.0, layout="constrained")
        grid = figure.subplots(2, len(found), sharex=True, sharey=True, squeeze=False)
        for column, (rate, (noisy, exact)) in zip(grid.T, found.items(), strict=True):
            kept = slice(int(SHOWN_S * SHOWN_HZ))
            time_s = np.arange(exact.shape[1])[kept] / SHOWN_HZ
            for axes, one, without in zip(column, noisy.transpose(1, 0, 2), exact, strict=True):
                mean, deviation = one.mean(axis=0)[kept], one.std(axis=0)[kept]
                axes.fill_between(
                    time_s,
                    mean - deviation,
                    mean + deviation,
                    alpha=0.25,
                    linewidth=0.0,
                    label="noise: mean ± deviation",
                )
                axes.plot(time_s, mean, color="#0072B2", linewidth=0.9)
                axes.plot(time_s, without[kept], color="#D55E00", linewidth=0.8, label="without noise")
            column[0].set_title(f"{rate:g} Hz", loc="left", size=8.5)
            column[1].set_xlabel("since the drop (s)")
        grid[0][0].set_ylabel("error of the height (m)")
        grid[1][0].set_ylabel("error of the velocity (m/s)")
        grid[0][0].set_ylim(-3.0, 3.0)
        grid[0][0].legend(loc="upper left", fontsize=7.0)
    return figure
