"""A hopper's high-g sensor that is wrong: whether it is found, when, and what the estimate is worth before and after.

Sound sensors of simulated runs and of the unknown robots (simulated by others), of which none may be left out; then
the same with the high-g sensor reversed, its axes swapped, or its readings doubled, from the start or from 12 s on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.live_processes import row
from benchmarks.recordings import recordings
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.topics import HIGH_G
from hopper_estimation.training_trials import taken_of
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.judge import judge
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.evaluation.training import TrainingOptions, read_training_bag
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.robots import find_robot

Array = NDArray[np.float64]

SOUND_SEEDS, SPOILT_SEEDS = range(9400, 9420), range(9420, 9424)
_DURATION_S, _MID_RUN_S, _STANCE_S = 40.0, 12.0, 3.0
_ROBOT, _CONFIGURATION = find_robot("hopper"), HopperConfiguration()

SPOILT: dict[str, Callable[[Array], Array]] = {
    "reversed": lambda values: values * [1, 1, 1, -1, -1, -1],
    "axes swapped": lambda values: values[:, [1, 2, 0, 4, 5, 3]],
    "doubled": lambda values: values * [1, 1, 1, 2, 2, 2],
}


class Found(NamedTuple):
    """When a wrong sensor was left out, s after it became wrong (NaN: never), and touchdowns between.

    Shares of the height's errors within three standard deviations, before and from three seconds after; the RMS
    error after, m.
    """

    after_s: float
    touchdowns: int
    covered_before: float
    covered_after: float
    rms_after_m: float


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows: of sound sensors, then of each fault."""
    sound = [(name, seed) for name in ("hardware", "ideal") for seed in (SOUND_SEEDS[:1] if quick else SOUND_SEEDS)]
    simulated = [("hardware", seed) for seed in (SPOILT_SEEDS[:1] if quick else SPOILT_SEEDS)]
    unknown = list(_unknown())
    with ProcessPoolExecutor(2) as pool:
        left_out_s = list(pool.map(_left_out_s, [*sound, *unknown]))
        jobs = list(product((*simulated, *unknown), SPOILT, (0.0, _MID_RUN_S)))
        found = list(pool.map(_found, *zip(*jobs, strict=True)))
    count = sum(one > 0.0 for one in left_out_s)
    rows = [row("sound sensors that were left out", f"{count} of {len(left_out_s)} runs", "0", count == 0)]
    for spoilt, since_s in product(SPOILT, (0.0, _MID_RUN_S)):
        of_it = [one for one, (_, *what) in zip(found, jobs, strict=True) if what == [spoilt, since_s]]
        rows.append(_row(f"{spoilt} from {since_s:g} s on" if since_s else f"{spoilt} from the start", of_it))
    return rows


def _row(case: str, found: list[Found]) -> dict[str, Any]:
    after_s, touchdowns, before, covered, rms_m = (np.array(one, dtype=np.float64) for one in zip(*found, strict=True))
    figure = (
        f"{np.isfinite(after_s).sum()} of {len(found)} found, after {np.nanmedian(after_s):.1f} s in the median "
        f"(worst {np.nanmax(after_s):.1f}), {np.nanmax(touchdowns):.0f} touchdowns at most; 3 sigma before "
        f"{np.nanmean(before):.3f} (worst {np.nanmin(before):.3f}), after {np.nanmean(covered):.3f} "
        f"(worst {np.nanmin(covered):.3f}), RMS after {np.nanmedian(rms_m):.2f} m (worst {np.nanmax(rms_m):.2f})"
    )
    return row(case, figure, "all found", bool(np.isfinite(after_s).all()))


def _left_out_s(run_of: tuple[str, int]) -> float:
    return float(taken_of(_CONFIGURATION, _recording(run_of).series)[1]["at_odds_s"][0])


def _found(run_of: tuple[str, int], spoilt: str, since_s: float) -> Found:
    sound = _recording(run_of)
    start_ns = min(int(one.stamps_ns[0]) for one in sound.series)
    end_s = (max(int(one.stamps_ns[-1]) for one in sound.series) - start_ns) / NANOSECONDS_PER_SECOND
    series = []
    for one in sound.series:
        if one.channel.sensor == HIGH_G.sensor:
            bad = one.stamps_ns >= start_ns + round(since_s * NANOSECONDS_PER_SECOND)
            one = replace(one, values=np.where(bad[:, None], SPOILT[spoilt](one.values), one.values))
        series.append(one)
    wrong = replace(sound, series=tuple(series))
    left_out_s = float(taken_of(_CONFIGURATION, wrong.series)[1]["at_odds_s"][0])
    result = judge(_ROBOT, _CONFIGURATION, _ROBOT.estimators[0], wrong)
    at_s = end_s - left_out_s if left_out_s > 0.0 else np.nan
    time_s = (result.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    height = result.parts["height"]
    known = np.isfinite(height.error[:, 0])
    inside = np.abs(height.error[:, 0]) < 3.0 * height.stddev[:, 0]
    before, after = known & (time_s >= since_s) & (time_s < at_s), known & (time_s >= at_s + _STANCE_S)
    events_s = [
        (one.stamp_ns - start_ns) / NANOSECONDS_PER_SECOND for one in result.phase_events if one.name == "touchdown"
    ]
    return Found(
        at_s - since_s,
        sum(since_s <= one < at_s for one in events_s),
        float(inside[before].mean()) if before.any() else np.nan,
        float(inside[after].mean()) if after.any() else np.nan,
        float(np.sqrt(np.mean(height.error[after, 0] ** 2))) if after.any() else np.nan,
    )


def _unknown() -> Iterator[tuple[str, int]]:
    """The unknown robots, where their recordings are there."""
    try:
        recordings("unknown_hopper")
    except UserError as error:
        print(error)
        return
    yield from (("robot", number) for number in range(1, 5))


def _recording(run_of: tuple[str, int]) -> LoadedRecording:
    name, number = run_of
    if name == "robot":
        bag = recordings("unknown_hopper", f"robot_{number}")
        return read_training_bag(_ROBOT, _CONFIGURATION, bag, TrainingOptions())
    return simulated_recording(_ROBOT, _CONFIGURATION, name, "mixed", _DURATION_S, number)
