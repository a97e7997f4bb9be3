"""Events of a hop from motion capture alone: heights at some hundred hertz, with noise, gaps and times of rest.

Where the robot touches. In flight the body is slowed or pulled by less than gravity; on the ground the spring's preload
alone pushes with several times gravity. So a stance is a stretch with an upward acceleration that nothing in the air
reaches, or a gap over which the velocity turns upwards that fast. Standing, hovering and slow landings have none of it.

When. At touchdown and liftoff the leg is extended, so the body passes the standing height above the ground: the time is
where the flight's own curve, a parabola through its last 40 ms, crosses that height. Not the smoothed height: it is
bent over the kink there. At 8 m/s and 0.3 mm of noise, that is known to some 0.05 ms.

Where the ground's height is not known, the kink tells it: at touchdown the acceleration jumps from that of flight to
that of the preloaded spring (by some 100 m/s^2), at liftoff the velocity drops too, as the body pulls the leg along.
Curves of flight, stance and flight are fitted to the heights, and the level at which they fit best when they meet there
is that of the ground: known to some millimetres (`contact_level`). Touchdown and liftoff of one stance share it. The
lowest point would not do: it tells the ground less the compression.

The apex is where the derivative of a cubic about the highest point is zero (thrust changes there, so no parabola).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from hopper_estimation.judging.hops import HopCycles, HopEvents, finite_samples, hop_cycles
from hopper_estimation.model.phases import APEX, LIFTOFF, MAX_SQUAT, TOUCHDOWN, Array
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.soundness.stretches import runs

_CONTACT_M_S2 = 20.0
_SLOWEST_M_S = 0.7
"""Speed of touchdown and liftoff from which on it counts as a hop: 2.5 cm of height."""
_HALF_WINDOW_S = 0.0125
"""Of the parabola whose slope is a velocity by motion capture."""
_FLIGHT_S = 0.04
_SQUAT_S = 0.01
_APEX_S = 0.03
_LONGEST_GAP_S = 0.3
_LONGEST_GAP_IN_STANCE_S = 0.015
_LONGEST_EXTRAPOLATION_S = 0.05
_LONGEST_STANCE_S = 0.4
_FEWEST_SAMPLES = 6
_FEWEST_OF_A_PARABOLA = 5
_COARSE_M = 0.008
"""Step in which the level of a stance is searched."""
_FEWEST_OF_A_STANCE = 16
_STANCE_POWERS = (2, 3, 4, 5)


@dataclass(frozen=True)
class TrueHops:
    """What motion capture says of a run.

    Attributes
    ----------
    time_s, height_m, velocity_m_s
        (K,) samples with a height; velocity by local parabolas, NaN beside gaps.
    events
        Of all stances and of the apexes between them.
    cycles
        From touchdown to touchdown.
    ground_m
        (S,) height of the ground at each touchdown.
    unknown_s
        (B, 2) times between touchdowns in which one must have been, in a gap too long to tell when, or may have been,
        in a gap of more than 0.3 s: no cycle goes across such a gap, and hops and events there cannot be judged.
    """

    time_s: Array
    height_m: Array
    velocity_m_s: Array
    events: HopEvents
    cycles: HopCycles
    ground_m: Array
    unknown_s: Array


def true_hops(
    time_s: ArrayLike,
    height_m: ArrayLike,
    standing_height_m: float,
    ground_m: float | None = 0.0,
) -> TrueHops:
    """Find stances, events and hop cycles in a motion capture track.

    Parameters
    ----------
    time_s, height_m
        (K,) times in order and heights of the body's centre of mass, m; NaN where it was not seen. 200 Hz or more.
    standing_height_m
        Height of the body above the ground with the leg extended, m.
    ground_m
        Height of level ground, m; None: not level, estimated anew at each stance.

    Raises
    ------
    UserError
        Where samples are too few or too slow for the kink of a touchdown.
    """
    time, height = finite_samples(time_s, height_m)
    if len(time) < 2 * _FEWEST_SAMPLES:
        raise UserError(f"{len(time)} heights of motion capture; hops need {2 * _FEWEST_SAMPLES} or more")
    step = float(np.median(np.diff(time)))
    if step > 0.0051:
        raise UserError(f"motion capture at {1.0 / step:.0f} Hz; events of hops need 200 Hz or more")
    half_window = max(_HALF_WINDOW_S, 3.0 * step)
    _, velocity, acceleration = local_quadratics(time, height, half_window)

    spans = _contacts(time, velocity, acceleration)
    stances = [one for one in (_stance(time, height, span) for span in spans) if one is not None]
    grounds = [ground_m if ground_m is not None else _ground(time, height, one, standing_height_m) for one in stances]
    found: list[tuple[int, float, float]] = []
    landed: list[float] = []
    breaks = time[:-1][np.diff(time) > _LONGEST_GAP_S].tolist()
    for number, (one, ground) in enumerate(zip(stances, grounds, strict=True)):
        end_s = stances[number + 1].first_s if number + 1 < len(stances) else float(time[-1])
        events = _events_of(time, height, one, standing_height_m + ground, end_s)
        found += [(kind, *event) for kind, event in events.items() if event is not None]
        if events.get(TOUCHDOWN) is not None:
            landed.append(ground)
        elif one.falls:
            breaks.append(one.lowest_s)
    kinds, times, heights = np.array(found, float).reshape(-1, 3).T
    all_events = HopEvents.of(kinds, times, None, heights)
    landed_m = np.array(landed, float)
    cycles = hop_cycles(all_events, time, height, standing_height_m, landed_m, breaks_s=sorted(breaks))
    unknown = _unknown(time, all_events.times_s(TOUCHDOWN), np.array(breaks, float))
    return TrueHops(time, height, velocity, all_events, cycles, landed_m, unknown)


def _unknown(time: Array, touchdowns: Array, breaks: Array) -> Array:
    """(B, 2) stretches between touchdowns, or to an end of the track, with a break in them."""
    edges = np.concatenate(([time[0]], touchdowns, [time[-1]]))
    at = np.unique(np.clip(np.searchsorted(edges, breaks, side="right") - 1, 0, len(edges) - 2))
    return np.column_stack([edges[at], edges[at + 1]])


class _Stance(NamedTuple):
    """A stretch of contact: first and last instant of strong acceleration, the lowest point, what happens around it."""

    first_s: float
    last_s: float
    lowest_s: float
    falls: bool
    rises: bool


def _contacts(time: Array, velocity: Array, acceleration: Array) -> list[tuple[float, float]]:
    """First and last instants with an upward acceleration of contact; gaps count by their mean acceleration."""
    known = np.flatnonzero(np.isfinite(acceleration))
    if len(known) < 2:
        return []
    contacts = [(time[known[a]], time[known[b - 1]]) for a, b in runs(acceleration[known] > _CONTACT_M_S2)]
    # Beside a gap no parabola fits: what happened in it shows in the velocities before and after.
    lasted, gained = np.diff(time[known]), np.diff(velocity[known])
    turned = (np.diff(known) > 1) & (lasted <= _LONGEST_GAP_S) & (gained > _CONTACT_M_S2 * lasted)
    contacts += [(time[known[k]], time[known[k + 1]]) for k in np.flatnonzero(turned)]
    contacts.sort()
    merged: list[tuple[float, float]] = []
    for first, last in contacts:
        if merged and first - merged[-1][1] < 0.02:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _stance(time: Array, height: Array, span: tuple[float, float]) -> _Stance | None:
    """A contact with its lowest point, if the robot falls into it or rises from it; else None."""
    first, last = span
    if last - first > _LONGEST_STANCE_S:
        return None
    inside = slice(*np.searchsorted(time, [first - 0.01, last + 0.01]))
    there = inside.stop > inside.start
    lowest = float(time[inside][np.argmin(height[inside])]) if there else 0.5 * (first + last)
    before, after = _speed(time, height, first - _FLIGHT_S, first), _speed(time, height, last, last + _FLIGHT_S)
    falls, rises = before < -_SLOWEST_M_S, after > _SLOWEST_M_S
    turns = after - before > _SLOWEST_M_S  # noise in flight does not
    return _Stance(first, last, lowest, falls, rises) if turns and (falls or rises) else None


def _speed(time: Array, height: Array, start: float, stop: float) -> float:
    """Mean velocity between two times, m/s; NaN without samples."""
    first, last = np.searchsorted(time, [start, stop])
    if last - first < 3:
        return np.nan
    return float(np.polyfit(time[first:last] - start, height[first:last], 1)[0])


def _events_of(
    time: Array, height: Array, one: _Stance, level: float, end_s: float
) -> dict[int, tuple[float, float] | None]:
    """Times and heights of the events of a stance and of the flight after it, by kind; None: it was not seen."""
    out: dict[int, tuple[float, float] | None] = {}
    if one.falls:
        out[TOUCHDOWN] = _crossing(time, height, one, level, down=True)
    if one.falls and one.rises:
        out[MAX_SQUAT] = _extremum(time, height, one.lowest_s, _SQUAT_S, 2)
    if one.rises:
        out[LIFTOFF] = _crossing(time, height, one, level, down=False)
        out[APEX] = _apex(time, height, one.last_s, end_s)
    return out


def _crossing(time: Array, height: Array, one: _Stance, level: float, down: bool) -> tuple[float, float] | None:
    """Where the flight before (down) or after the stance crosses a level: its parabola there."""
    gap_s = -_LONGEST_GAP_S if down else _LONGEST_GAP_S
    first, last = np.searchsorted(time, sorted((one.lowest_s, one.lowest_s + gap_s)))
    above = first + np.flatnonzero(height[first:last] > level)
    if not len(above):
        return None
    edge = float(time[above[-1 if down else 0]])
    used = above[np.abs(time[above] - edge) <= _FLIGHT_S]
    if len(used) < _FEWEST_SAMPLES:
        return None
    roots = _real(np.polyfit(time[used] - edge, height[used] - level, 2), _LONGEST_EXTRAPOLATION_S)
    return (edge + roots[0], level) if roots else None


def _ground(time: Array, height: Array, one: _Stance, standing: float) -> float:
    """Height of the ground under a stance from the kinks at its ends."""
    first, last = np.searchsorted(time, [one.first_s - _FLIGHT_S, one.last_s + _FLIGHT_S])
    if last - first < 2 or np.diff(time[first:last]).max() > _LONGEST_GAP_IN_STANCE_S:
        return np.nan
    level = contact_level(time[first:last], height[first:last], one.lowest_s, one.falls, one.rises)
    return np.nan if level is None else level - standing


def contact_level(time_s: Array, height_m: Array, lowest_s: float, lands: bool, leaves: bool) -> float | None:
    """Height of a body at touchdown and liftoff, where its track has its kinks, m.

    None with too few samples or no level that fits best.

    For a level, t_d and t_l are when the track crosses it. With t' = min(t, t_l) the model is

        z(t) = c_0 + c_1 t' + c_2 t'^2 + sum over k = 2 .. 5 of b_k max(t' - t_d, 0)^k         flight, then stance
             + d_1 max(t - t_l, 0) + d_2 max(t - t_l, 0)^2                                     flight again

    Height and velocity go on at touchdown, the acceleration jumps. At liftoff the velocity jumps too, since the body
    pulls the leg along. The model is linear for a given level, which is the one with the least squared residuals.

    Parameters
    ----------
    time_s, height_m
        (K,) samples of the stance with some 40 ms of flight before and after it.
    lowest_s
        Time of the lowest point.
    lands, leaves
        Whether the track has a touchdown and a liftoff. Without one, the samples on its side of the lowest point are
        not used.
    """
    used = ((time_s <= lowest_s) | leaves) & ((time_s >= lowest_s) | lands)
    times, heights = time_s[used], height_m[used]
    if len(times) < _FEWEST_OF_A_STANCE or not (lands or leaves):
        return None
    scale = max(times[-1] - times[0], 1e-3)
    x, lowest = (times - times[0]) / scale, (lowest_s - times[0]) / scale
    before, after = x <= lowest, x >= lowest

    def columns(level: float) -> Array:
        landing = _last_crossing(x[before], heights[before], level) if lands else 0.0
        leaving = -_last_crossing(-x[after][::-1], heights[after][::-1], level) if leaves else x[-1]
        held = np.minimum(x, leaving)
        flight = [np.ones_like(x), held, held**2]
        stance = [np.maximum(held - landing, 0.0) ** power for power in _STANCE_POWERS if lands or power > 2]
        rest = [np.maximum(x - leaving, 0.0), np.maximum(x - leaving, 0.0) ** 2] if leaves else []
        return np.column_stack([*flight, *stance, *rest])

    def cost(level: float) -> float:
        # What is left of the heights once the columns are taken out of them: the last element of the triangle.
        triangle = np.asarray(np.linalg.qr(np.column_stack([columns(level), heights]), mode="r"))
        return float(triangle[-1, -1] ** 2)

    bottom = float(heights.min())
    tops = [heights[before].max()] * lands + [heights[after].max()] * leaves
    grid = np.arange(bottom + 0.01, min(tops) - 0.01, _COARSE_M)
    if len(grid) < 3:
        return None
    costs = np.array([cost(level) for level in grid])
    best = int(np.argmin(costs))
    if best in (0, len(grid) - 1):
        return None
    bounds = (grid[best - 1], grid[best + 1])
    return float(minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-5}).x)


def _last_crossing(x: Array, height: Array, level: float) -> float:
    """Where a track that comes down crosses a level for the last time; its end if it does not."""
    above = np.flatnonzero(height > level)
    if not len(above) or above[-1] + 1 >= len(x):
        return float(x[-1])
    k = above[-1]
    return float(x[k] + (x[k + 1] - x[k]) * (height[k] - level) / (height[k] - height[k + 1]))


def _apex(time: Array, height: Array, after: float, before: float) -> tuple[float, float] | None:
    """Time and height of the highest point between two stances; None where it was not seen."""
    first, last = np.searchsorted(time, [after, before])
    if last - first < _FEWEST_SAMPLES:
        return None
    top = first + int(np.argmax(height[first:last]))
    # A maximum at the end of the recording is no apex.
    if top in (first, last - 1):
        return None
    return _extremum(time, height, float(time[top]), _APEX_S, 3)


def _extremum(time: Array, height: Array, near: float, half_window: float, degree: int) -> tuple[float, float] | None:
    """Time and height of the extremum next to a time; None beside a gap of a third of the window or more."""
    first, last = np.searchsorted(time, [near - half_window, near + half_window])
    times = time[first:last]
    gaps = np.diff(times, prepend=near - half_window, append=near + half_window)
    if len(times) < _FEWEST_SAMPLES or gaps.max() > 0.67 * half_window:
        return None
    curve = np.polyfit(times - near, height[first:last], degree)
    roots = _real(curve[:-1] * np.arange(degree, 0, -1), half_window)
    return (near + roots[0], float(np.polyval(curve, roots[0]))) if roots else None


def _real(coefficients: Array, largest: float) -> list[float]:
    """Real roots of a polynomial up to a size, the smallest first."""
    roots = np.roots(coefficients)
    real = [float(root.real) for root in roots if abs(root.imag) < 1e-9 * (1.0 + abs(root.real))]
    return sorted((root for root in real if abs(root) <= largest), key=abs)


# Height, velocity and acceleration of a track by a parabola around each sample: Savitzky and Golay with gaps. Samples
# need not be evenly spaced, so that lost frames and jittering stamps are no trouble.


@njit(cache=True, error_model="numpy")
def local_quadratics(time_s: Array, value: Array, half_window_s: float) -> Array:
    """(3, K) value, first and second derivative at each sample, by least squares within the window around it.

    NaN where fewer than five samples are in the window or all lie to one side.

    Parameters
    ----------
    time_s, value
        (K,) finite, times in order.
    half_window_s
        Samples up to so far away are used.
    """
    out, near, begin = np.full((3, len(time_s)), np.nan), 1.0 + 1e-9, 0
    for row in range(len(time_s)):  # times in half windows, values from the centre's
        while (time_s[begin] - time_s[row]) / half_window_s < -near:
            begin += 1
        s0, s1, s2, s3, s4, r0, r1, r2, lowest, other = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, begin
        t = (time_s[other] - time_s[row]) / half_window_s
        highest = t
        while t <= near:
            v = value[other] - value[row]
            lowest, highest = min(lowest, t), t
            s0, s1, s2, s3, s4 = s0 + 1.0, s1 + t, s2 + t * t, s3 + t * t * t, s4 + t * t * t * t
            r0, r1, r2 = r0 + v, r1 + v * t, r2 + v * t * t
            other += 1
            if other == len(time_s):
                break
            t = (time_s[other] - time_s[row]) / half_window_s
        if s0 < _FEWEST_OF_A_PARABOLA or lowest > -0.3 or highest < 0.3:
            continue
        # Cramer's rule, by cofactors of the symmetric matrix [[s0 s1 s2], [s1 s2 s3], [s2 s3 s4]].
        a, b, c = s2 * s4 - s3 * s3, s2 * s3 - s1 * s4, s1 * s3 - s2 * s2
        d, e, f = s0 * s4 - s2 * s2, s1 * s2 - s0 * s3, s0 * s2 - s1 * s1
        determinant = s0 * a + s1 * b + s2 * c
        out[0, row] = value[row] + (a * r0 + b * r1 + c * r2) / determinant
        out[1, row] = (b * r0 + d * r1 + e * r2) / determinant / half_window_s
        out[2, row] = 2.0 * (c * r0 + e * r1 + f * r2) / determinant / half_window_s**2
    return out


def velocity_at(track: BodyTrack, stamps_ns: NDArray[np.int64]) -> Array:
    """(K,) vertical velocity at the stamps, m/s; NaN in gaps, where no parabola has samples on both sides nearby."""
    start = int(track.stamps_ns[0])
    time = (track.stamps_ns - start) / NANOSECONDS_PER_SECOND
    at = (stamps_ns - start) / NANOSECONDS_PER_SECOND
    velocity = local_quadratics(time, track.values[:, 2].copy(), _HALF_WINDOW_S)[1]
    known = np.isfinite(velocity)
    if not known.any():
        return np.full(len(at), np.nan)
    time, velocity = time[known], velocity[known]
    out = np.interp(at, time, velocity)
    right = np.clip(np.searchsorted(time, at), 0, len(time) - 1)
    nearest = np.minimum(np.abs(time[right] - at), np.abs(at - time[np.maximum(right - 1, 0)]))
    out[nearest > 2.0 * _HALF_WINDOW_S] = np.nan
    return out
