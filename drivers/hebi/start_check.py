"""Whether modules that have just started can be right: their rate, and, where they lie still, gravity and gyros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from drivers.at_rest import lies_still, rate_fault, resting_faults, stuck_fault
from drivers.hebi.feeds import HebiConfiguration
from onboard_estimation.base.measurement import IMU, Matrix, Vector

_LOOKS_S = 2.0


_LEAST_READINGS = 20


class StartCheck:
    """Keeps what modules measure for two seconds from when all of them have answered, and judges it once."""

    def __init__(self, configuration: HebiConfiguration) -> None:
        self._configuration = configuration
        self._heard: set[int] = set()
        self._values: list[list[Vector]] = [[] for _ in configuration.names]
        self._since_s: float | None = None

    def add(self, module: int, value: Vector) -> None:
        """Of a module, by its place: gyro rad/s, accelerometer m/s^2, and what comes after; NaN: it has none."""
        if self._since_s is None:
            self._heard.add(module)
        else:
            self._values[module].append(value[:6])

    def verdict(self, now_s: float) -> tuple[list[str], str] | None:
        """What cannot be right, and a sentence on the whole; None: it is too early."""
        if self._since_s is None:
            if len(self._heard) == len(self._values):
                self._since_s = now_s
            return None
        if now_s - self._since_s < _LOOKS_S:
            return None
        values = [np.array(rows).reshape(-1, 6) for rows in self._values]
        return judged(self._configuration, values, now_s - self._since_s)


def judged(configuration: HebiConfiguration, values: Sequence[Matrix], seconds: float) -> tuple[list[str], str]:
    """What cannot be right, a sentence each, and a sentence on the whole.

    Parameters
    ----------
    values
        Of each module (K, 6): gyro rad/s, accelerometer m/s^2; NaN: it has none.
    seconds
        That they are from.
    """
    found, unseen = [], []
    for number, (name, rows) in enumerate(zip(configuration.names, values, strict=True), start=1):
        called = f"module {number} ({name})"
        found += [sentence for sentence in _module_faults(configuration, called, rows, seconds) if sentence]
        if not _may_be_judged(rows):
            unseen.append(name)
    rates_hz = [round(len(rows) / seconds) for rows in values]
    slowest_hz, fastest_hz = min(rates_hz), max(rates_hz)
    told = f"{len(values)} {'imitated ' if configuration.source == 'imitation' else ''}modules answer"
    told += f" {slowest_hz if slowest_hz == fastest_hz else f'{slowest_hz} to {fastest_hz}'} times a second"
    if configuration.source != "log":
        told += f", asked {configuration.feedback_frequency_hz:g} times"
    if unseen:
        told += f"; gyros and gravity are not judged of {', '.join(unseen)}, which had to lie still for it"
    elif not found:
        told += "; at rest their gyros and gravity are plausible"
    return found, told


def _module_faults(configuration: HebiConfiguration, name: str, values: Matrix, seconds: float) -> Iterator[str]:
    """Of one module; empty where there is none."""
    if not len(values):
        yield f"{name}: no reading in {seconds:.1f} s"
        return
    if configuration.source == "network":  # a log has the rate that it was recorded at, an imitation gives what it can
        asked_hz = configuration.feedback_frequency_hz
        remedy = f"asked {asked_hz:g} times: is the network too slow, or this computer?"
        yield rate_fault(name, len(values), seconds, asked_hz, remedy)
    for part, where in (("gyro", IMU.angular_velocity), ("accelerometer", IMU.linear_acceleration)):
        yield _absent_or_stuck(f"{name}: its {part}", values[:, where], configuration.source == "imitation")
    if _may_be_judged(values):  # a robot's estimator goes by the rate about z
        upright = (
            "where it has to be along z of a link that lies flat; mount the module so" if configuration.robot else ""
        )
        gravity = "is it being moved evenly, or is its accelerometer at fault?"
        yield from resting_faults(name, values, gravity, upright)


def _may_be_judged(values: Matrix) -> bool:
    """Whether there are readings (K, 6) enough, at rest."""
    return len(values) >= _LEAST_READINGS and lies_still(values)


def _absent_or_stuck(name: str, values: NDArray[np.float64], imitated: bool) -> str:
    """Of gyro or accelerometer (K, 3). Those of an imitation may have no noise."""
    there = values[np.isfinite(values).all(axis=1)]
    if not len(there):
        return f"{name} tells nothing"
    return "" if imitated else stuck_fault(name, there)
