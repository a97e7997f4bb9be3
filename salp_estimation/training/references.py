"""What an estimate of the joint angles has to beat: what needs no training, or no filter at all.

From the same start as the filter's: a chain assumed straight; commands, integrated through the quasi-static model (eq.
5) as configured, without gyros; the filter without a trained model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Measurement
from onboard_estimation.base.presentation import format_number
from onboard_estimation.base.series import Series
from onboard_estimation.contract.result import EvaluationResult, Note
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.estimator import SalpEstimator
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.training.runs import in_force, rim_speeds

Rows = NDArray[np.float64]
Stamps = NDArray[np.int64]

WORDS = {
    "without_a_model": "the filter without a model",
    "by_integrated_commands": "integrated commands",
    "assumed_straight": "a chain assumed straight",
}
"""Of the references, by the ends of their names."""
RATE_HZ = 50.0
"""Of gyros and commands for the filter without a model: more change its errors by a few per cent, either way."""
_STEP_NS = 50_000_000
_FILTER, _RMSE = "joint_angles_by_the_filter_rmse_deg", "joint_angles_{}_rmse_deg"


def references(
    configuration: SalpConfiguration,
    series: Sequence[Series],
    start: Estimate,
    stamps_ns: Stamps,
    filtered: bool = True,
) -> dict[str, Rows]:
    """Joint angles (K, N - 1), rad, by each of the references; of those without commands none are integrated.

    Parameters
    ----------
    start
        Of a state that begins with pose and joint angles.
    stamps_ns
        (K,) increasing.
    filtered
        The filter without a model is among them.
    """
    joints = slice(3, len(configuration.chain.link_names) + 2)
    found = {"without_a_model": _untrained(configuration, series, start, stamps_ns)} if filtered else {}
    command = next((one for one in series if one.channel.sensor == COMMAND), None)
    if command is not None:
        found["by_integrated_commands"] = integrated_commands(configuration, command, start, stamps_ns)[:, joints]
    return {**found, "assumed_straight": np.zeros((len(stamps_ns), joints.stop - joints.start))}


def integrated_commands(configuration: SalpConfiguration, command: Series, start: Estimate, stamps_ns: Stamps) -> Rows:
    """States (K, N + 2) that the commands lead to, eq. (5), from the start on; each holds until the next."""
    chain = configuration.chain.build()
    given_ns, speeds = rim_speeds(configuration.chain, command)
    end_ns = max(int(stamps_ns[-1]), start.stamp_ns)
    within = given_ns[(given_ns > start.stamp_ns) & (given_ns < end_ns)]
    at_ns = np.unique(np.concatenate([within, np.arange(start.stamp_ns, end_ns, _STEP_NS), [end_ns]]))
    states = [start.mean[: chain.link_count + 2]]
    durations_s = np.diff(at_ns) / NANOSECONDS_PER_SECOND
    for asked, duration_s in zip(in_force(given_ns, speeds, at_ns[:-1]), durations_s, strict=True):
        states.append(chain.propagate(states[-1][None], asked, float(duration_s))[0])
    return _at(at_ns, np.array(states), stamps_ns)


def _untrained(configuration: SalpConfiguration, series: Sequence[Series], start: Estimate, stamps_ns: Stamps) -> Rows:
    """Joint angles (K, N - 1) of the filter without a model; NaN where it gives none."""
    estimator = SalpEstimator(configuration)
    size = estimator.space.dimension
    initial = Estimate(start.stamp_ns, start.mean[:size], start.covariance[:size, :size])
    channels = [one.channel for one in series]
    record = Pipeline(estimator, channels, initial, configuration.lag_s).run(thinned(series, RATE_HZ))
    if not record:
        return np.full((len(stamps_ns), size - 3), np.nan)
    angles = np.array([one.mean[estimator.space.coordinates("joint_angles")] for one in record])
    return _at(np.array([one.stamp_ns for one in record]), angles, stamps_ns)


def thinned(series: Sequence[Series], gyro_rate_hz: float) -> list[Measurement]:
    """Measurements in the order of their stamps, those of each gyro no more often than that, all others than 50 Hz."""
    kept: list[Measurement] = []
    for one in series:
        sensor, order = one.channel.sensor, np.argsort(one.stamps_ns, kind="stable")
        stamps = one.stamps_ns[order]
        rate_hz = gyro_rate_hz if sensor.startswith("imu/") else RATE_HZ
        slots = (stamps - stamps[:1]) // round(NANOSECONDS_PER_SECOND / rate_hz)
        first = np.flatnonzero(np.diff(slots, prepend=-1))
        kept += [Measurement(int(stamps[k]), sensor, one.values[order[k]]) for k in first]
    return sorted(kept, key=lambda measurement: (measurement.stamp_ns, measurement.sensor != COMMAND))


def _at(known_ns: Stamps, values: Rows, stamps_ns: Stamps) -> Rows:
    """(K, n) of angles or lengths (M, n) between which they change evenly."""
    columns = np.unwrap(values, axis=0).T
    return np.column_stack([np.interp(stamps_ns - known_ns[0], known_ns - known_ns[0], one) for one in columns])


def rms_deg(joint_angles: Rows, truth: Rows) -> float:
    """RMS of the errors of joint angles (K, N - 1), rad."""
    missed = joint_angles - truth
    return float(np.rad2deg(np.sqrt(np.mean(np.arctan2(np.sin(missed), np.cos(missed)) ** 2))))


# In an evaluation.


def reference_figures(
    configuration: SalpConfiguration, series: Sequence[Series], result: EvaluationResult
) -> dict[str, float]:
    """RMS errors of the joint angles by the filter and by each of the references, deg; none without a truth."""
    part = result.parts.get("joint_angles")
    if part is None or result.start is None or not part.matched.any():
        return {}
    used = part.judged(result.time_s, result.settle_s)
    trained = bool(configuration.residual_model)  # else the filter without a model is the filter itself
    found = references(configuration, series, result.start, result.stamps_ns[used], trained)
    errors = {_RMSE.format(name): rms_deg(angles, part.truth[used]) for name, angles in found.items()}
    return {_FILTER: float(np.rad2deg(part.rms(used)["rad"])), **errors}


def worse_than(figures: Mapping[str, Any]) -> tuple[Note, ...]:
    """What of the references is nearer to the truth than the filter, by `reference_figures`."""
    errors = {words: figures.get(_RMSE.format(name), np.inf) for name, words in WORDS.items()}
    better = {words: error for words, error in errors.items() if error < figures.get(_FILTER, 0.0)}
    if not better:
        return ()
    listed = " and ".join(f"{words} ({format_number(error)} deg)" for words, error in better.items())
    sentence = (
        f"The filter's joint angles ({format_number(figures[_FILTER])} deg RMS) are worse than {listed}: train a model "
        "with runs like this one."
    )
    return (Note(sentence, f"joint angles worse than {' and '.join(better)}"),)


# In a training.


def loss_sentences(held_out: Rows) -> list[str]:
    """On how many held-out runs (R, 6), see `ResidualModel.held_out`, the references were better."""
    if not len(held_out):
        return []
    counts = (held_out[:, 2:5] < held_out[:, 1:2]).sum(axis=0).tolist()
    lost = {words: count for words, count in zip(WORDS.values(), counts, strict=True) if count}
    of = f"of {len(held_out)} runs that were held out"
    if not lost:
        return [f"on each {of} the trained filter was better than {', '.join(WORDS.values())}"]
    counted = ", ".join(f"on {count} than {words}" for words, count in lost.items())
    return [f"the trained filter may not be better than {' or '.join(lost)}: {of}, it was worse {counted}"]
