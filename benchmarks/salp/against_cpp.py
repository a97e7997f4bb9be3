"""A gyro's reading in LandSalp's filters, alone and in the pipeline, against a plain filter in C++ with Eigen."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Row, case, interleaved, row
from benchmarks.salp.runs import TrainingSet, simulated, trained
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Block, Measurement
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.estimator import SalpEstimator, link_errors
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT

CONFIGURATION = SalpConfiguration()
REST_S, SECONDS, LIVE = 2.2, 3.0, 20
TARGET = 0.5
"""At most twice the time of the plain filter."""
PEER, ONE_BY_ONE = "C++ with Eigen, -O3 -march=native", "pipeline, one by one"
NO_COMPILER = "no C++ compiler with Eigen here: apt-get install g++ libeigen3-dev"
_FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")


def gyro_reading(few: bool) -> list[Row]:
    """The rows, of few repetitions or many."""
    measurements = driven()
    gyros = sum(one.sensor != COMMAND for one in measurements)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        forms: dict[str, Mapping[str, Any]] = {"ukf": {}}
        forms["calibrated"] = trained(Path(name), "calibrated", TrainingSet(seeds=1).sources()).settings
        candidates = {}
        for form, settings in forms.items():
            told = {**settings, "gyro.used_rate_hz": 0.0, "initial.wrong_start_probability": 0.0}
            for way, candidate in _ways(load(SalpConfiguration, None, told), measurements).items():
                candidates[f"{form}, {way}"] = candidate
        peer = _plain(Path(name), measurements)
        if peer is not None:
            candidates[PEER] = peer
        samples = interleaved(candidates, 3 if few else 21, 0.0, time.process_time)
    samples = {name: seconds / gyros for name, seconds in samples.items()}
    for one in samples:
        if one != PEER:
            against = (PEER, TARGET) if one.startswith("ukf") and peer is not None else ()
            rows.append(case(f"a reading, {one}", samples, one, *against))
    return rows if peer is not None else [*rows, row("plain filter", NO_COMPILER)]


def driven() -> list[Measurement]:
    """Of a robot that has begun to move: no filter learns biases."""
    every = list(simulated("hardware", "left", 800_000, REST_S + SECONDS)().measurements())
    return [one for one in every if one.stamp_ns > every[0].stamp_ns + REST_S * NANOSECONDS_PER_SECOND]


def _ways(configuration: SalpConfiguration, measurements: list[Measurement]) -> dict[str, Callable[[], object]]:
    """The filter alone and in the pipeline."""
    estimator, channels, whole = (
        ROBOT.estimator(configuration, "ukf"),
        ROBOT.channels(configuration),
        Block.of(measurements),
    )

    def steps() -> None:
        state = estimator.start(None)
        for measurement in measurements:
            state = estimator.step(state, measurement).state

    def blocks() -> None:
        state, first = estimator.start(None), 0
        while first < len(measurements):
            found = estimator.filter_block(state, whole.rows(first, min(first + LIVE, len(measurements))))
            if found is None:
                state, first = estimator.step(state, measurements[first]).state, first + 1
            else:
                state, first = found.state, first + found.taken

    def one_by_one() -> None:
        pipeline = Pipeline(estimator, channels, lag_s=configuration.lag_s)
        for measurement in measurements:
            pipeline.process(measurement)

    def run() -> None:
        Pipeline(estimator, channels, lag_s=configuration.lag_s).run(measurements)

    return {"alone": steps, f"in blocks of {LIVE}": blocks, ONE_BY_ONE: one_by_one, "pipeline, a recording": run}


def _plain(folder: Path, measurements: list[Measurement]) -> Callable[[], object] | None:
    """The filter in C++ over all measurements, once compared with ours; None without a compiler."""
    library = folder / "plain_filter.so"
    source = Path(__file__).with_name("plain_filter.cpp")
    try:
        subprocess.run(["g++", *_FLAGS, str(source), "-o", str(library)], check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    function = ctypes.CDLL(str(library)).run
    chain, process, gyro = CONFIGURATION.chain, CONFIGURATION.process, CONFIGURATION.gyro
    kinds = np.array([-1 if one.sensor == COMMAND else int(one.sensor[-1]) - 1 for one in measurements])
    stamps_ns, values = np.array([one.stamp_ns for one in measurements]), np.zeros((len(measurements), 3))
    for place, one in zip(values, measurements, strict=True):
        place[:] = chain.signed_wheel_radii_m * one.value if one.sensor == COMMAND else one.value[2]
    settings = np.array(
        [
            process.wheel_speed_noise_m_s_sqrt_hz,
            gyro.noise_stddev_rad_s**2,
            process.link_rate_error_rad_s**2,
            gyro.scale_stddev**2,
            2.0 * process.error_time_s,
            CONFIGURATION.initial.gyro_bias_stddev_rad_s**2,
            SalpEstimator(CONFIGURATION).gate.threshold,
            process.longest_step_s,
            process.body_speed_error_m_s**2,
        ]
    )
    links, errors = chain.build().links, np.asfortranarray(link_errors(3)).T.copy()
    start, covariance = np.zeros(5), CONFIGURATION.initial_covariance()
    means, covariances = np.empty((len(kinds), 5)), np.empty((len(kinds), 5, 5))
    arrays: tuple[NDArray[Any], ...] = links, settings, errors, kinds, stamps_ns, values, start, covariance
    arrays += means, covariances
    at = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    arguments = (*at[:3], ctypes.c_int64(len(kinds)), *at[3:6], ctypes.c_int64(values.shape[1]), *at[6:])
    function(*arguments)
    estimator = SalpEstimator(CONFIGURATION)
    state = estimator.start(None)
    for measurement in measurements:
        state = estimator.step(state, measurement).state
    mean, spread = estimator.published(state.filtered)
    theirs = means[np.count_nonzero(kinds >= 0) - 1]
    apart = float(np.abs((theirs - mean) / np.sqrt(np.diag(spread)))[2:].max())
    if not apart < 0.05:
        raise RuntimeError(f"heading and joint angles of the plain filter and ours are {apart:.2g} stddev apart")
    return lambda: (arrays, function(*arguments))  # which are to live as long
