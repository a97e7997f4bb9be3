"""One sample of the hopper's KF1, compiled, against the same in pure Python and against FilterPy.

A sample goes through both low-pass filters, the phase logic, prediction, covariance, and what updates it brings; four
hops of a simulated recording, from the first drop on, with the package's own parameters. Three peers with the same
phase logic: our own source run by Python itself on NumPy arrays (the target), a plain class on Python's numbers, and
FilterPy's KalmanFilter. "Readings": beside that, choice, zeroing and turning upright of both accelerometers' readings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.hopper.hopper_filters_models import recording_of
from benchmarks.hopper.hopper_step_peer import FilterPyHopper, NumbersOfPython, PythonHopper, uncompiled
from benchmarks.timing import Samples, case, interleaved
from hopper_estimation import phases
from hopper_estimation import readings_kernels as readings
from hopper_estimation import samples as samples_module
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_model import DEFAULT_FILE, load_filters
from hopper_estimation.filters import body_of, state_filter
from hopper_estimation.phases import DROP
from hopper_estimation.samples import NOMINAL_DT_S
from hopper_estimation.training_trials import Trial, trial_of
from onboard_estimation.resources import resource

Row = dict[str, Any]

TARGET, TARGET_S = 300.0, 20e-9
GAIT, HOPPING_S, SEED = "2m", 8.0, 800_000
PYTHON_SAMPLES = 3000
"""About two hops: pure Python takes some hundredths of a second for them."""
OURS, SOURCE, NUMBERS, FILTERPY = "compiled", "same source, uncompiled", "plain Python", "FilterPy"
LARGEST_DIFFERENCE = 1e-8


def run(quick: bool) -> list[Row]:
    """The filter alone, then with readings."""
    return rows(5 if quick else 41)


def rows(repetitions: int) -> list[Row]:
    """All cases."""
    one = _Samples()
    one.require_agreement()
    candidates = {
        OURS: one.compiled,
        SOURCE: one.source,
        NUMBERS: lambda: one.peer(NumbersOfPython),
        FILTERPY: lambda: one.peer(FilterPyHopper),
    }
    counts = {OURS: one.count, SOURCE: one.few, NUMBERS: one.few, FILTERPY: one.few}
    samples = _per_sample(interleaved(candidates, repetitions, block_s=0.01), counts)
    label = "one sample: low-pass filters, phase, updates, covariance"
    out = [
        case(label, samples, OURS, SOURCE, TARGET, recorded_samples=one.count),
        case(label, samples, OURS, NUMBERS, recorded_samples=one.count),
        case(label, samples, OURS, FILTERPY, recorded_samples=one.count),
        case(label, samples, OURS, target_s=TARGET_S, recorded_samples=one.count),
    ]
    both = {OURS: one.compiled_with_readings, SOURCE: one.source_with_readings}
    samples = _per_sample(interleaved(both, repetitions, block_s=0.01), counts)
    out.append(case("one sample: readings and filter", samples, OURS, SOURCE, recorded_samples=one.count))
    return out


def _per_sample(samples: Samples, counts: dict[str, int]) -> Samples:
    return {name: times / counts[name] for name, times in samples.items()}


def _attributed(records: Any) -> Any:
    """With fields as attributes, for Python as for numba."""
    return records.view(np.recarray)


class _Samples:
    """A recording, from its first drop on, and all ways through it."""

    def __init__(self) -> None:
        self.configuration = HopperConfiguration()
        recording = recording_of("hardware", GAIT, HOPPING_S, SEED)
        self.trial: Trial = trial_of(self.configuration, "benchmark", recording)
        self.signals = self.trial.signals
        self.entry = load_filters(resource(DEFAULT_FILE)).entry("kf1")
        zz, zv, vv = self.entry.start_covariance
        self.start = state_filter("kf1", self.configuration.robot).new_state
        self.settings = readings.reading_settings(self.configuration)
        self.covariance = np.array([[zz, zv], [zv, vv]])
        self.count = len(self.signals)
        self.messages = samples_module.recorded_messages(recording.series)
        self.message_count = len(self.messages.kinds)
        self.few = min(PYTHON_SAMPLES, self.count)
        self.out = np.empty((self.count, 6))
        self.events = np.empty(self.count // 20, phases.EVENT)
        self._source = uncompiled(kernels.run)
        self._source_readings = uncompiled(samples_module._take_all)
        columns = (self.signals[name] for name in ("dt", "low", "high", "usable", "goal"))
        self.numbers = list(zip(*(column[: self.few].tolist() for column in columns), strict=True))

    def _filter(self, function: Any, count: int) -> int:
        states = self.start(self.trial.start_height_m, 0.0, self.covariance, DROP)
        states, signals, events = (_attributed(one) for one in (*states, self.signals[:count], self.events))
        body = body_of(self.configuration)
        found: int = function(kernels.KF1, self.entry.parameters, body, states, signals, self.out[:count], events)
        return found

    def _read(self, function: Any, count: int) -> None:
        kinds = self.messages.kinds[: self.message_count * count // self.count]
        records = samples_module.nothing_arrived(), readings.new_state(), np.empty(len(kinds), phases.SIGNAL)
        arrived, state, signals = map(_attributed, records)
        stamps_ns, made_of = np.empty((2, len(kinds)), dtype=np.int64)
        function(self.settings, arrived, state, kinds, *self.messages[1:], signals, stamps_ns, made_of)

    def compiled(self) -> int:
        """Our filter over all samples."""
        return self._filter(kernels.run, self.count)

    def source(self) -> int:
        """Its source, run by Python, over a few."""
        return self._filter(self._source, self.few)

    def compiled_with_readings(self) -> int:
        """Readings and filter."""
        self._read(samples_module._take_all, self.count)
        return self.compiled()

    def source_with_readings(self) -> int:
        """The same, run by Python."""
        self._read(self._source_readings, self.few)
        return self.source()

    def peer(self, kind: type[PythonHopper]) -> PythonHopper:
        """A peer over a few samples."""
        robot = self.configuration.robot
        made = kind(
            self.entry.parameters,
            robot.standing_height_m,
            robot.gravity_m_s2,
            NOMINAL_DT_S,
            self.trial.start_height_m,
            self.covariance,
        )
        for step, low, high, usable, goal in self.numbers:
            made.step(step, low, high, usable, goal)
        return made

    def require_agreement(self) -> None:
        """RuntimeError where the peers' numbers are not ours, or there is no hop to time."""
        events = self._filter(kernels.run, self.few)
        ours = self.out[self.few - 1].copy()
        if events < 4:
            raise RuntimeError(f"{events} events in {self.few} samples: there must be a hop")
        if self.source() != events or np.abs(self.out[self.few - 1] - ours).max() > LARGEST_DIFFERENCE:
            raise RuntimeError(f"the source gives {self.out[self.few - 1]}, compiled {ours}")
        for kind in (NumbersOfPython, FilterPyHopper):
            made = self.peer(kind)
            found = np.array([*made.state(), made.phase])
            if np.abs(found - ours[[0, 1, 5]]).max() > LARGEST_DIFFERENCE:
                raise RuntimeError(f"{kind.__name__} gives {found}, compiled {ours[[0, 1, 5]]}")
