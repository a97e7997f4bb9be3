"""How the bus and its devices fare, as `diagnostic_msgs/DiagnosticArray`: status bits and states in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivers.ethercat.cycle import Cycle, Figures
from drivers.ethercat.description import StatusBits
from drivers.ethercat.device import Device
from onboard_estimation.ros.diagnostics import ERROR, OK, WARN, status
from onboard_estimation.ros.estimates import New


def bus_status(new: New, name: str, cycle: Cycle, figures: Figures, expected: int) -> Any:
    """Of the bus: working counter, and how well the instants of its cycles were kept since the last report."""
    values: dict[str, float] = {
        "working_counter": cycle.counter,
        "working_counter_expected": expected,
        "cycles": cycle.cycles,
        "missed_working_counters": cycle.missed,
        "overruns": cycle.overruns,
        "overflow": cycle.overflow,
        "last_loss_s": cycle.lost_for_s,
        **{key: value for key, value in figures._asdict().items() if key.endswith("_us")},
    }
    if cycle.trouble:
        return status(new, name, "bus", ERROR, cycle.trouble, values)
    told = f"{figures.cycles} cycles, working counter {cycle.counter} of {expected}"
    wrong = [f"{figures.missed} missed working counters"] if figures.missed else []
    wrong += [f"{figures.overruns} instants left out, a cycle took too long"] if figures.overruns else []
    return status(new, name, "bus", WARN if wrong else OK, "; ".join([told, *wrong]), values)


def device_status(
    new: New,
    name: str,
    device: Device,
    said: Mapping[StatusBits, int],
    remarks: list[str],
    values: Mapping[str, float],
) -> Any:
    """Of a device: its state, and what its status bits said since the last report, with the count of readings.

    Parameters
    ----------
    remarks
        Further sentences, each a warning.
    """
    sentences = [device.trouble] if device.trouble else []
    level = ERROR if device.trouble else OK
    for bits, count in said.items():
        sentences.append(f"{bits.level}: {bits.meaning} ({count} readings)")
        level = max(level, WARN if bits.level == "warning" else ERROR)
    if remarks:
        sentences += remarks
        level = max(level, WARN)
    part = f"{device.description.name} {device.position}"
    return status(new, name, part, level, "; ".join(sentences) or "in operation", {"starts": device.starts, **values})
