"""`evaluate --align-clock`: the truth moved in time by what the motion tells, or left, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from onboard_estimation.evaluation.bulk import Column
from onboard_estimation.evaluation.clock_alignment import ClockReport, named_after, pair
from onboard_estimation.evaluation.overlap import ImuReadings, TrackedBody
from onboard_estimation.evaluation.truth import BodyTrack
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel, value_size

_IMU = "sensor_msgs/msg/Imu"
_IMU_SIZE = 6
# What the readings' sampling leaves open beside the noise: no IMU of several outweighs the others by more.
_LEAST_STDDEV_S = 2e-4
_APART_S = 2e-3


def aligned(
    sensors: Mapping[Channel, Column], truth: Mapping[Channel, Column], tracks: Mapping[str, BodyTrack]
) -> tuple[dict[str, BodyTrack], str]:
    """Tracks with their stamps moved, and a sentence for the run's notes.

    All bodies are moved by the same time, for they have one clock: the mean of the offsets of all IMUs, by their
    uncertainties.

    Parameters
    ----------
    sensors, truth
        What was read of each channel.
    tracks
        By the names of the truth's channels (`Channel.sensor`).
    """
    imus = {
        channel.topic: ImuReadings(column.stamps_ns, column.log_times_ns, column.values)
        for channel, column in sensors.items()
        if channel.message_type == _IMU and value_size(channel) == _IMU_SIZE and len(column.stamps_ns)
    }
    bodies = {
        channel.topic: TrackedBody(tracks[channel.sensor], _delay_s(column))
        for channel, column in truth.items()
        if len(column.stamps_ns)
    }
    reports = pair(imus, bodies, named_after(imus, bodies)) if imus and bodies else ()
    told = [one for one in reports if one.offset_s is not None and not one.rather]
    if not told:
        reasons = dict.fromkeys(f"{one.sensor}: {_why_not(one)}" for one in reports)
        why = "; ".join(reasons) or "there is no IMU with a body that was tracked"
        return dict(tracks), f"The truth's clock is left as it was recorded, motion does not tell its offset ({why})."
    offsets_s = np.array([one.offset_s for one in told])
    stddevs_s = np.hypot([one.stddev_s or 0.0 for one in told], _LEAST_STDDEV_S)
    weights = stddevs_s**-2 / np.sum(stddevs_s**-2)
    offset_s = float(weights @ offsets_s)
    shift_ns = round(offset_s * NANOSECONDS_PER_SECOND)
    moved = {body: replace(track, stamps_ns=track.stamps_ns + shift_ns) for body, track in tracks.items()}
    return moved, _moved_by(offset_s, 3.0 * float(np.sum(stddevs_s**-2) ** -0.5), told)


def _moved_by(offset_s: float, sure_s: float, told: list[ClockReport]) -> str:
    each = ", ".join(f"{one.sensor} {1e3 * (one.offset_s or 0.0):+.2f} ms" for one in told) if len(told) > 1 else ""
    offsets = [one.offset_s or 0.0 for one in told]
    spread_s = max(offsets) - min(offsets)
    doubt = (
        f"; they differ by {1e3 * spread_s:.1f} ms, which no shift of the truth mends (--delay)"
        if spread_s > max(_APART_S, 2.0 * sure_s)
        else ""
    )
    return (
        f"The truth's stamps are moved by {1e3 * offset_s:+.2f} ms, as the motion tells to +- {1e3 * sure_s:.2f} ms "
        f"(3 sigma){': ' if each else ''}{each}{doubt}."
    )


def _why_not(report: ClockReport) -> str:
    return f"it moves as {report.rather} does, not as {report.body}" if report.rather else report.refused


def _delay_s(column: Column) -> float:
    return float(np.median(column.log_times_ns - column.stamps_ns)) / NANOSECONDS_PER_SECOND
