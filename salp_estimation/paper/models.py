"""The models of section III against motion capture and gyros: residuals (figure 3), averages of cycles (figure 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kurtosis, normaltest, skew

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.contract.recorded import LoadedRecording
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.training.motion import DEFAULT_CUTOFF_HZ
from salp_estimation.training.runs import run_from_recording

Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Followed:
    """What a run did and what the models say, low-passed as in section V-A, over its stretch of whole cycles.

    Attributes
    ----------
    names, units
        (2 N + 2,) of the columns: rates of the base frame and the joints, gyros.
    measured, modelled
        (K, 2 N + 2) at a rate that the caller chose.
    phase_s
        (P,) of a cycle.
    measured_cycle, spread_cycle, modelled_cycle
        (P, 2 N + 2) means over the cycles, and the measured ones' standard deviation.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    measured: Rows
    modelled: Rows
    phase_s: Vector
    measured_cycle: Rows
    spread_cycle: Rows
    modelled_cycle: Rows
    cycles: int

    @property
    def links(self) -> int:
        """N."""
        return len(self.names) // 2 - 1

    def missed(self, *columns: int) -> float:
        """Of the mean cycle, RMS of measured less modelled over RMS of measured, those columns together."""
        chosen = list(columns)
        measured = self.measured_cycle[:, chosen]
        left = measured - self.modelled_cycle[:, chosen]
        return float(np.sqrt(np.mean(left**2) / np.mean(measured**2)))


_PHASES = 120


def followed(
    configuration: SalpConfiguration,
    recording: LoadedRecording,
    name: str,
    rate_hz: float,
    duration_s: float,
    most_cycles: int,
) -> Followed:
    """A run at `rate_hz` for so long, and its first cycles, as many as there are and no more than asked for.

    Raises
    ------
    UserError
        No whole cycle lies in sight of the motion capture, or a gyro lacks.
    """
    run = run_from_recording(configuration, recording, name, DEFAULT_CUTOFF_HZ)
    chain, motion, links = configuration.chain.build(), run.motion, configuration.chain.link_names
    if len(run.gyros) < len(links) or run.frequency_hz <= 0.0:
        raise UserError(f"{name}: a gyro on each link and commands that repeat themselves are needed")
    gyros = [motion.low_pass(motion.sampled(one.stamps_ns, one.rates[:, None])) for _, one in sorted(run.gyros.items())]
    measured = np.hstack([motion.rates, *gyros])
    r, u = motion.states[:, 3:], run.controls
    modelled = np.array(
        [np.concatenate([chain.velocity(*one), chain.gyro_rates(*one)]) for one in zip(r, u, strict=True)]
    )
    good = run.usable & np.isfinite(measured).all(axis=1) & np.isfinite(modelled).all(axis=1)
    good &= np.abs(u).max(axis=1) > 1e-3  # in motion
    time_s = (motion.stamps_ns - motion.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    columns, known_s = np.hstack([measured, modelled])[good], time_s[good]
    period_s, begin_s = 1.0 / run.frequency_hz, float(known_s[0]) if len(known_s) else 0.0
    cycles = min(most_cycles, int((known_s[-1] - begin_s) / period_s)) if len(known_s) else 0
    if cycles < 1:
        raise UserError(f"{name}: no whole cycle of {period_s:.1f} s lies in sight of the motion capture")

    def at(when_s: Vector) -> Rows:
        return np.column_stack([np.interp(when_s, known_s, column) for column in columns.T])

    count = int(min(duration_s, known_s[-1] - begin_s) * rate_hz)
    whole = at(begin_s + np.arange(count) / rate_hz)
    phase_s = np.arange(_PHASES) * period_s / _PHASES
    folded = np.stack([at(begin_s + number * period_s + phase_s) for number in range(cycles)])
    size, joints = measured.shape[1], len(links) - 1
    mean = folded.mean(axis=0)
    return Followed(
        ("forward", "left", "turn", *(f"alpha_{j + 1}" for j in range(joints)), *(f"gyro {one}" for one in links)),
        ("m/s", "m/s", *("rad/s",) * (size - 2)),
        whole[:, :size],
        whole[:, size:],
        phase_s,
        mean[:, :size],
        folded[:, :, :size].std(axis=0),
        mean[:, size:],
        cycles,
    )


@dataclass(frozen=True)
class Distribution:
    """Of a residual: mean, standard deviation, skewness, excess kurtosis, normality.

    Attributes
    ----------
    mean_in_errors, cycles_in_errors
        The mean over its standard error, as if samples were independent; and the mean of whole cycles, by the spread of
        these cycles' means.
    k_squared, p_value
        D'Agostino's and Pearson's test of normality, over all samples.
    """

    mean: float
    stddev: float
    mean_in_errors: float
    cycles_in_errors: float
    skewness: float
    excess_kurtosis: float
    k_squared: float
    p_value: float


def distribution(values: Vector, cycle: int) -> Distribution:
    """Of samples (K,), `cycle` of them each cycle."""
    means = values[: len(values) // cycle * cycle].reshape(-1, cycle).mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    found = normaltest(values)
    return Distribution(
        float(values.mean()),
        float(values.std()),
        float(abs(values.mean()) / values.std() * np.sqrt(len(values))),
        float(abs(means.mean()) / error),
        float(skew(values)),
        float(kurtosis(values)),
        float(found.statistic),
        float(found.pvalue),
    )
