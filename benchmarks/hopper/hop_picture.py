"""Picture of one hop, apex to apex, and its stance enlarged: height, velocity, both accelerometers, phases and events.

`python -m benchmarks.hopper.hop_picture FILE` writes the one of the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from hopper_estimation import dynamics
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP
from hopper_estimation.simulator import VARIANTS, HopperSimulation
from hopper_estimation.topics import HIGH_G, LOW_G
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.picture import ESTIMATE_COLOUR, TRUTH_COLOUR

Array = NDArray[np.float64]

_PHASES = {
    DROP: ("drop", "#F1F1F1"),
    STANCE_DOWN: ("stance down", "#FBDDBE"),
    STANCE_UP: ("stance up", "#FFF1B8"),
    REBOUND: ("rebound", "#DDEEF9"),
}
_LOW_COLOUR, _HIGH_COLOUR = "#009E73", "#CC79A7"
_MARGIN_S = 0.02
_LONGEST_RUN_S = 600.0
_STEP_S = 5.0
_VERTICAL = 5
"""Channel of an IMU: three rates, then the acceleration along x, y and z."""
_STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.0,
    "grid.color": "#CCCCCC",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
}


@dataclass(frozen=True, eq=False)
class Hop:
    """One hop from apex to apex; times on the run's clock, in seconds.

    Attributes
    ----------
    time_s, height_m, velocity_m_s
        (K,) motion of the body; height above standing.
    start_apex_s, touchdown_s, max_squat_s, liftoff_s, apex_s
        Its events.
    reading_s, low_m_s2, high_m_s2
        (M,) readings of both accelerometers along the leg.
    standing_height_m
        Height of the body above the ground with the leg extended.
    """

    time_s: Array
    height_m: Array
    velocity_m_s: Array
    start_apex_s: float
    touchdown_s: float
    max_squat_s: float
    liftoff_s: float
    apex_s: float
    reading_s: Array
    low_m_s2: Array
    high_m_s2: Array
    standing_height_m: float


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Another account of the same run, such as an estimate or a recording: (K,) each.

    `height_m` is the body's height above the ground of the start, as in the estimates; times on the run's clock.
    """

    time_s: Array
    height_m: Array
    velocity_m_s: Array
    name: str = "estimate"


def simulated_hop(configuration: HopperConfiguration, variant: str = "2m", seed: int = 1, number: int = 3) -> Hop:
    """Simulate a run and cut out one hop; hops count from 1, the first begins at the first apex after the drop.

    Raises
    ------
    UserError
        Where the variant is unknown, the number is below 1, or the robot does not hop so often within ten minutes.
    """
    if variant not in VARIANTS:
        raise UserError(f"unknown variant '{variant}'; there are {', '.join(VARIANTS)}")
    if number < 1:
        raise UserError(f"hop {number}: hops count from 1")
    simulation = HopperSimulation(configuration, variant, np.random.default_rng(seed))
    simulation.trace, readings, stop_s = [], [], 0.0
    while True:
        stop_s += _STEP_S
        recording = simulation.advance(round(stop_s * NANOSECONDS_PER_SECOND))
        by_topic = {one.channel.topic: one for one in recording.sensors}
        low, high = by_topic[LOW_G.topic], by_topic[HIGH_G.topic]
        readings.append(np.column_stack([1e-9 * low.stamps_ns, low.values[:, _VERTICAL], high.values[:, _VERTICAL]]))
        phase = np.concatenate([piece[:, dynamics.T_PHASE] for piece in simulation.trace])
        apexes = np.flatnonzero((phase[:-1] == REBOUND) & (phase[1:] == DROP)) + 1
        if len(apexes) > number:
            break
        if stop_s >= _LONGEST_RUN_S:
            raise UserError(
                f"{variant}, seed {seed}: only {len(apexes)} apexes in {stop_s:g} s; hop {number} needs more"
            )
    rows = slice(apexes[number - 1], apexes[number] + 1)
    motion, phase = np.concatenate(simulation.trace)[rows], phase[rows]
    time_s = np.arange(rows.start + 1, rows.stop + 1) * dynamics.STEP_S  # a row is the state at the end of its step
    reading = np.concatenate(readings)
    reading = reading[(reading[:, 0] >= time_s[0]) & (reading[:, 0] <= time_s[-1])]
    standing_m = configuration.robot.standing_height_m

    def begins(one: int) -> float:
        return float(time_s[np.argmax(phase == one)])

    return Hop(
        time_s,
        motion[:, dynamics.T_HEIGHT] - standing_m,
        motion[:, dynamics.T_VELOCITY],
        float(time_s[0]),
        begins(STANCE_DOWN),
        begins(STANCE_UP),
        begins(REBOUND),
        float(time_s[-1]),
        reading[:, 0],
        reading[:, 1],
        reading[:, 2],
        standing_m,
    )


def write_hop_picture(hop: Hop, file: Path, other: Trajectory | None = None, name: str = "true") -> None:
    """Write a PNG file that is the same whenever hop and trajectory are.

    Parameters
    ----------
    other
        A second line for height and velocity.
    name
        What the hop's own line is called.

    Raises
    ------
    UserError
        Where the file cannot be written, or nothing of `other` is within the hop.
    """
    if other is not None and not np.any((other.time_s >= hop.start_apex_s) & (other.time_s <= hop.apex_s)):
        raise UserError(
            f"no sample of '{other.name}' between {hop.start_apex_s:.3f} s and {hop.apex_s:.3f} s, where the hop is: "
            "do both count from the start of the same run?"
        )
    with style.context(_STYLE, after_reset=True):  # the user's own matplotlibrc must not change the file
        figure = Figure(figsize=(9.0, 6.6), dpi=110.0, layout="constrained")
        grid = figure.subplots(3, 2, sharex="col", width_ratios=(1.35, 1.0))
        stance_s = (hop.touchdown_s - _MARGIN_S, hop.liftoff_s + _MARGIN_S)
        columns = (((hop.start_apex_s, hop.apex_s), 1.0), (stance_s, 1e3))
        for column, (limits_s, scale) in zip(grid.T, columns, strict=True):
            _draw(column, hop, other, limits_s, scale)
        grid[0, 0].set_ylabel("height above standing (m)")
        grid[1, 0].set_ylabel("velocity (m/s)")
        grid[2, 0].set_ylabel("specific force along\nthe leg (m/s$^2$)")
        grid[2, 0].set_xlabel("time since touchdown (s)")
        grid[2, 1].set_xlabel("time since touchdown (ms)")
        grid[0, 0].set_title("a hop, apex to apex", loc="left", pad=20.0)
        grid[0, 1].set_title("its stance", loc="left", pad=20.0)
        figure.align_ylabels(grid[:, 0])
        _name_events(grid[0, 1], hop)
        lines = [Line2D([], [], color=TRUTH_COLOUR, label=name)]
        if other is not None:
            lines.append(Line2D([], [], color=ESTIMATE_COLOUR, linestyle="--", label=other.name))
        lines += [
            Line2D([], [], color=_LOW_COLOUR, marker=".", label="low-g accelerometer"),
            Line2D([], [], color=_HIGH_COLOUR, marker=".", label="high-g accelerometer"),
        ]
        patches = [Patch(color=colour, label=label) for label, colour in _PHASES.values()]
        figure.legend(handles=[*lines, *patches], loc="outside lower center", ncols=4, fontsize=8.5)
        try:
            FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror or error}") from error


def _draw(
    column: Sequence[Axes], hop: Hop, other: Trajectory | None, limits_s: tuple[float, float], scale: float
) -> None:
    """One column: what lies between two times, drawn over the time since touchdown times `scale`."""

    def since(time_s: Array | float) -> Array:
        return scale * (np.asarray(time_s) - hop.touchdown_s)

    def within(time_s: Array) -> NDArray[np.bool_]:
        return (time_s >= limits_s[0]) & (time_s <= limits_s[1])

    shown = within(hop.time_s)
    height, velocity, force = column
    for axes, values in ((height, hop.height_m), (velocity, hop.velocity_m_s)):
        axes.plot(since(hop.time_s[shown]), values[shown], color=TRUTH_COLOUR)
    if other is not None:
        near = within(other.time_s)
        for axes, values in ((height, other.height_m - hop.standing_height_m), (velocity, other.velocity_m_s)):
            axes.plot(since(other.time_s[near]), values[near], color=ESTIMATE_COLOUR, linestyle="--")
    read = within(hop.reading_s)
    marker = "." if scale > 1.0 else ""  # single readings can be told apart only in the enlargement
    # The low-g sensor on top: it is the one with the smaller range and the cleaner reading.
    for values, colour in ((hop.high_m_s2, _HIGH_COLOUR), (hop.low_m_s2, _LOW_COLOUR)):
        force.plot(since(hop.reading_s[read]), values[read], color=colour, marker=marker, linewidth=1.0)
    bounds_s = (hop.start_apex_s, hop.touchdown_s, hop.max_squat_s, hop.liftoff_s, hop.apex_s)
    for axes in column:
        for (_, colour), start_s, stop_s in zip(_PHASES.values(), bounds_s[:-1], bounds_s[1:], strict=True):
            axes.axvspan(float(since(start_s)), float(since(stop_s)), color=colour, linewidth=0.0, zorder=0.0)
        for event_s in bounds_s[1:-1]:
            axes.axvline(float(since(event_s)), color="#666666", linewidth=0.8, linestyle=":")
        axes.set_xlim(float(since(limits_s[0])), float(since(limits_s[1])))


def _name_events(axes: Axes, hop: Hop) -> None:
    """Above the enlarged stance."""
    events = (("touchdown", hop.touchdown_s), ("max squat", hop.max_squat_s), ("liftoff", hop.liftoff_s))
    for label, time_s in events:
        place = (1e3 * (time_s - hop.touchdown_s), 1.0)
        axes.annotate(
            label,
            place,
            (0.0, 3.0),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            ha="center",
            size=8.5,
        )


def main(arguments: Sequence[str]) -> int:
    """Write the picture of the documentation: a hop of 2 m on the scenario's hardware."""
    if len(arguments) != 1:
        print("usage: python -m benchmarks.hopper.hop_picture FILE.png", file=sys.stderr)
        return 2
    try:
        write_hop_picture(simulated_hop(HopperConfiguration()), Path(arguments[0]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
