"""Which stretches of a recording are unsound, and why. Three kinds are looked for:

- *poses* that motion capture has made up: the last one repeated while the body is lost, the origin in its place, a leap
  away where markers were swapped. They are left out of errors and of training;
- *readings* of a sensor that has stopped measuring: zeros, or one reading over and over. They are named, not left out:
  a robot gets them too;
- *stamps* of another age: a clock that falls back and returns, or that is set while recording. The recorder's clock
  tells which they are; they cost their own time alone.

Each needs a sign that rest does not have: a body at rest repeats its pose to the noise, and moves on slowly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector

Integers = NDArray[np.int64]
Places = NDArray[np.intp]
Mask = NDArray[np.bool_]

JUMP_SPEED_M_S = 10.0
JUMP_STEP_M = 0.01
JUMP_RATE_RAD_S = 35.0
JUMP_TURN_RAD = 0.2
"""A step of a pose beyond both of a kind is no motion of a body."""

_SAME_RAD = 1e-6
_AT_ONCE = 8192
_LEAST_FROZEN_S, _FEWEST_FROZEN = 0.1, 4
_OUT_OF_FREEZE = 5.0
_INTO_FREEZE = 0.5
_LEAST_LAST_S = 0.5
LEAPING_SHARE = 0.3
_PIECES_BACK = 60  # so many pieces before one are tried as its predecessor: bounds the work on a very poor track
LEAPS = "leaps away as no body moves"

_LEAST_DEAD_S, FEWEST_DEAD, _FEWEST_CHANGES = 0.25, 20, 50
_MOST_REPEATS = 0.01
_OUT_OF_DEAD = 0.2

_CLOCK_STEP_NS = 10 * NANOSECONDS_PER_SECOND
_SMALL_STEP_NS, _UNEVEN_NS, _FEWEST_OTHER = 300_000_000, 20_000_000, 10  # fewer came late, or went astray
_SAME_CLOCK_NS = 60 * NANOSECONDS_PER_SECOND
_ENOUGH_SHARE, _MOST = 0.1, 0.8


@dataclass(frozen=True)
class Unsound:
    """Messages in a row of one topic that do not tell what they should.

    Attributes
    ----------
    first, stop
        Numbers of the first message and of the one after the last.
    start_ns, end_ns
        Their stamps; where these are wrong, when they were recorded.
    why
        In words that follow the topic's name: `repeats one pose`.
    """

    first: int
    stop: int
    start_ns: int
    end_ns: int
    why: str

    @property
    def count(self) -> int:
        """Messages."""
        return self.stop - self.first

    @property
    def duration_s(self) -> float:
        """From the first to the last stamp."""
        return (self.end_ns - self.start_ns) / NANOSECONDS_PER_SECOND


def marked(stretches: list[Unsound], count: int) -> Mask:
    """(count,) which of the messages lie in one of the stretches."""
    out = np.zeros(count, dtype=np.bool_)
    for one in stretches:
        out[one.first : one.stop] = True
    return out


def longest(where: Mask) -> tuple[int, int]:
    """First and behind the last of what is set without a break for longest; (0, 0) where nothing is."""
    return max(runs(where), key=lambda run: run[1] - run[0], default=(0, 0))


def longest_run(where: Mask) -> Integers:
    """Their numbers."""
    return np.arange(*longest(where))


def unsound_sentences(topic: str, stretches: list[Unsound], zero_ns: int, consequence: str = "") -> list[str]:
    """A sentence for each kind of stretch on a topic; moments in seconds after `zero_ns`, the longest named."""
    found = []
    for why in dict.fromkeys(one.why for one in stretches):
        chosen = [one for one in stretches if one.why == why]
        longest = max(chosen, key=lambda one: one.end_ns - one.start_ns)
        start_s, end_s = ((stamp - zero_ns) / NANOSECONDS_PER_SECOND for stamp in (longest.start_ns, longest.end_ns))
        often = f" {len(chosen)} times, the longest" if len(chosen) > 1 else ""
        messages = sum(one.count for one in chosen)
        found.append(f"{topic} {why}{often} from {start_s:.2f} to {end_s:.2f} s: {messages} messages{consequence}.")
    return found


def pose_steps(poses: Matrix) -> tuple[Vector, Vector]:
    """Distances (K - 1,) in metres and turns (K - 1,) in radians between neighbours of poses (K, 7) or (K, 3)."""
    numbers = np.arange(len(poses))
    return _between(poses, numbers[:-1], numbers[1:])


def _between(poses: Matrix, first: Places, then: Places) -> tuple[Vector, Vector]:
    """Of poses with some numbers (M,) from those with others, in pieces that fit a processor's cache."""
    moves, then = np.zeros((2, len(first))), np.broadcast_to(then, first.shape)
    for piece in (slice(start, start + _AT_ONCE) for start in range(0, len(first), _AT_ONCE)):
        one, other = poses[first[piece]], poses[then[piece]]
        with np.errstate(over="ignore"):
            moves[0, piece] = np.linalg.norm(other[:, :3] - one[:, :3], axis=1)
        if poses.shape[1] == 7:
            before, after = (pose[:, 3:] / np.linalg.norm(pose[:, 3:], axis=1, keepdims=True) for pose in (one, other))
            apart, along = (np.linalg.norm(turn, axis=1) for turn in (before - after, before + after))
            moves[1, piece] = 4.0 * np.arctan2(np.minimum(apart, along), np.maximum(apart, along))
    return moves[0], moves[1]


def leaps(distances_m: Vector, turns_rad: Vector, steps_s: Vector) -> Mask:
    """Which steps between poses are none that a body can make."""
    return ((distances_m > JUMP_STEP_M) & (distances_m > JUMP_SPEED_M_S * steps_s)) | (
        (turns_rad > JUMP_TURN_RAD) & (turns_rad > JUMP_RATE_RAD_S * steps_s)
    )


def leaping_share(stamps_ns: Integers, poses: Matrix, size: float = 1.0) -> float:
    """Share of the moves between poses (K, 7) or (K, 3) that no body makes, if places are divided by `size`."""
    distances, _ = pose_steps(poses[:, :3])
    steps_s = np.diff(stamps_ns) / NANOSECONDS_PER_SECOND
    moving = distances > 0.0
    return float(leaps(distances / size, np.zeros(len(distances)), steps_s)[moving].mean()) if moving.any() else 0.0


def other_unit(stamps_ns: Integers, poses: Matrix) -> str:
    """A sentence's end on places that are in cm or mm, told by steps that no body makes where they are the rule."""
    if leaping_share(stamps_ns, poses) < LEAPING_SHARE:
        return ""
    units = [unit for unit, size in (("cm", 100.0), ("mm", 1000.0)) if leaping_share(stamps_ns, poses, size) < 0.01]
    if not units:
        return ""
    distances, _ = pose_steps(poses[:, :3])
    usual = float(np.median(distances[distances > 0.0]))
    return (
        f"moves by {usual:.3g} m from pose to pose, as no body does: its places are in {' or '.join(units)}, m is meant"
    )


def unsound_poses(stamps_ns: Integers, poses: Matrix) -> list[Unsound]:
    """Poses (K, 7) or (K, 3), at increasing stamps (K,), that motion capture has made up."""
    if len(poses) < 3:
        return []
    placeholders = _placeholders(stamps_ns, poses)
    sound = np.flatnonzero(~marked(placeholders, len(poses)))
    distances, turns = _between(poses, sound[:-1], sound[1:])
    # Back to the numbers of all poses.
    frozen = [
        _stretch(stamps_ns, int(sound[one.first]), int(sound[one.stop - 1]) + 1, one.why)
        for one in _frozen(stamps_ns[sound], distances, turns)
    ]
    left = np.flatnonzero(~marked(placeholders + frozen, len(poses)))

    def reachable(first: Places, then: Places) -> Mask:
        first, then = left[first], left[then]
        steps_s = (stamps_ns[then] - stamps_ns[first]) / NANOSECONDS_PER_SECOND
        return ~leaps(*_between(poses, first, then), steps_s)

    # Where leaps are the rule, places are in another unit, and none is worse than another.
    few = len(left) > 1 and leaping_share(stamps_ns[left], poses[:, :3][left]) < LEAPING_SHARE
    away = left[~longest_chain(len(left), reachable)] if few else left[:0]
    leapt = [_stretch(stamps_ns, first, stop, LEAPS) for first, stop in runs(np.isin(np.arange(len(poses)), away))]
    return sorted(placeholders + frozen + leapt, key=lambda one: one.first)


def _stretch(stamps_ns: Integers, first: int, stop: int, why: str) -> Unsound:
    return Unsound(first, stop, int(stamps_ns[first]), int(stamps_ns[stop - 1]), why)


def runs(where: Mask) -> list[tuple[int, int]]:
    """(first, stop) of the runs of what is set."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], where, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _placeholders(stamps_ns: Integers, poses: Matrix) -> list[Unsound]:
    """The origin itself, not turned, where the body is elsewhere before or after."""
    nothing = np.zeros(poses.shape[1])
    nothing[6:] = 1.0
    at_origin: Mask = np.asarray((poses == nothing).all(axis=1), dtype=np.bool_)
    if not at_origin.any() or at_origin.mean() > 0.5:
        return []
    far = np.linalg.norm(poses[:, :3], axis=1) > JUMP_STEP_M
    found = [
        (first, stop)
        for first, stop in runs(at_origin)
        if (first > 0 and far[first - 1]) or (stop > 1 and stop < len(poses) and far[stop])  # it may start there
    ]
    return [_stretch(stamps_ns, first, stop, "stands at the origin, where the body is not") for first, stop in found]


def _frozen(stamps_ns: Integers, distances: Vector, turns: Vector) -> list[Unsound]:
    """One and the same pose, out of which the body jumps on; or to the end, where it was moving before."""
    moves = np.flatnonzero((distances > 0.0) | (turns > _SAME_RAD))
    if len(moves) < 2:
        return []
    # Steps between moves stand still; what comes after is many times as long as usual, or it was rest.
    usual_m, usual_rad = float(np.median(distances[moves])), float(np.median(turns[moves]))
    starts = np.concatenate(([0], moves + 1))
    ends = np.concatenate((moves, [len(distances)]))
    length_s = (stamps_ns[ends] - stamps_ns[starts]) / NANOSECONDS_PER_SECOND
    long_enough = (ends - starts > _FEWEST_FROZEN) & (length_s > _LEAST_FROZEN_S)
    found = []
    for place in np.flatnonzero(long_enough).tolist():
        first, end = int(starts[place]), int(ends[place])
        if end < len(distances):
            out = distances[end] > _OUT_OF_FREEZE * usual_m or turns[end] > max(_OUT_OF_FREEZE * usual_rad, _SAME_RAD)
        else:
            into_m, into_rad = (float(steps[first - 1]) if first else 0.0 for steps in (distances, turns))
            moved = into_m > _INTO_FREEZE * usual_m or into_rad > max(_INTO_FREEZE * usual_rad, _SAME_RAD)
            out = moved and length_s[place] > _LEAST_LAST_S and len(moves) > 0.9 * first
        if out:
            # The first is the last that was seen.
            found.append(_stretch(stamps_ns, first + 1, end + 1, "repeats its last pose"))
    return found


def longest_chain(count: int, reachable: Callable[[Places, Places], Mask]) -> Mask:
    """(count,) which frames of a track belong together: the most of them, each reachable from the one before.

    A median finds a flip only while it is shorter than half of its window. Here the track is cut wherever the body can
    not have gone on, and of the pieces the longest chain that fit each other is kept (dynamic programming): a flip of
    any length is found as long as more frames are right than wrong.

    Parameters
    ----------
    reachable
        Whether a body can be where frames of one set of numbers have it after having been where those of another have
        it: both (K,), or the second a single one.
    """
    breaks = np.flatnonzero(~reachable(np.arange(count - 1), np.arange(1, count)))
    starts, stops = np.concatenate([[0], breaks + 1]), np.append(breaks + 1, count)
    lengths = stops - starts
    total, before = lengths.copy(), np.full(len(starts), -1)
    for piece in range(1, len(starts)):
        earlier = np.arange(max(0, piece - _PIECES_BACK), piece)
        near = reachable(stops[earlier] - 1, starts[piece : piece + 1])
        if near.any():
            best = earlier[near][np.argmax(total[earlier[near]])]
            before[piece], total[piece] = best, total[best] + lengths[piece]
    kept = np.zeros(count, dtype=np.bool_)
    piece = int(np.argmax(total))
    while piece >= 0:
        kept[starts[piece] : stops[piece]] = True
        piece = int(before[piece])
    return kept


def unsound_readings(stamps_ns: Integers, values: Matrix) -> list[Unsound]:
    """Readings (K, d), in order, of a sensor with noise that repeats one of them; NaN where nothing was measured."""
    finite = np.isfinite(values)
    known = finite.mean(axis=0) > 0.5 if len(values) else np.zeros(0, dtype=np.bool_)
    if len(values) <= FEWEST_DEAD or not known.any():
        return []
    same: Mask = np.logical_and.reduce((values[1:] == values[:-1]) & finite[1:], axis=1, where=known)
    repeats = [
        (first, stop)
        for first, stop in runs(same)
        if stop - first >= FEWEST_DEAD and (stamps_ns[stop] - stamps_ns[first]) / NANOSECONDS_PER_SECOND > _LEAST_DEAD_S
    ]
    others = np.count_nonzero(same) - sum(stop - first for first, stop in repeats)
    changes = len(same) - np.count_nonzero(same)
    if not repeats or others > _MOST_REPEATS * len(same) or changes < _FEWEST_CHANGES:
        return []  # it has no noise, or not as much as its last digit
    with np.errstate(invalid="ignore"):  # infinities are said elsewhere
        steps = np.abs(np.diff(values[:, known], axis=0))
    usual = np.median(steps[~same], axis=0)
    found = []
    for first, stop in repeats:
        edges = [steps[place] for place in (first - 1, stop) if 0 <= place < len(steps)]
        if not any((edge > _OUT_OF_DEAD * usual).any() for edge in edges):
            continue  # at rest, without noise
        zeros = not values[first, known].any()
        why = "reads zero on all axes" if zeros else "repeats one reading"
        found.append(_stretch(stamps_ns, first if zeros else first + 1, stop + 1, why))
    return found


def stamps_of_another_age(stamps_ns: Integers, log_times_ns: Integers) -> list[Unsound]:
    """Messages (K,), in the order of recording, whose stamps are of another clock than the most of their topic.

    Where the stamps step by more than ten seconds against the recorder's times, or by 0.3 s where these are as even as
    the stamps, another clock begins: not where a message only comes late, whose stamp does not step. The one that
    agrees with the recorder's, within a minute and for a tenth of the messages at least, counts; else one that has four
    fifths of them. Where there is none, a bag was played in parts, and nothing is unsound.
    """
    delays = log_times_ns - stamps_ns
    changes, moved = np.abs(np.diff(delays)), np.abs(np.diff(stamps_ns))
    even = len(changes) > 0 and float(np.median(changes)) < _UNEVEN_NS
    step_ns = _SMALL_STEP_NS if even else _CLOCK_STEP_NS
    steps = np.flatnonzero((changes > step_ns) & (moved > step_ns))
    if not len(steps):
        return []
    edges = [0, *(steps + 1).tolist(), len(delays)]
    parts = [(first, stop, float(np.median(delays[first:stop]))) for first, stop in itertools.pairwise(edges)]
    clocks: list[float] = []
    for _, _, delay in parts:
        if all(abs(delay - other) > step_ns for other in clocks):
            clocks.append(delay)
    sizes = {
        clock: sum(stop - first for first, stop, delay in parts if abs(delay - clock) <= step_ns) for clock in clocks
    }
    agreeing = [
        clock for clock, size in sizes.items() if abs(clock) < _SAME_CLOCK_NS and size >= _ENOUGH_SHARE * len(delays)
    ]
    right = min(agreeing, key=abs) if agreeing else max(sizes, key=lambda clock: sizes[clock])
    if not agreeing and sizes[right] < _MOST * len(delays):
        return []
    return [
        _stretch(log_times_ns, first, stop, _other_clock(delay - right, int(stamps_ns[first])))
        for first, stop, delay in parts
        if abs(delay - right) > (step_ns if stop - first >= _FEWEST_OTHER else _CLOCK_STEP_NS)
    ]


def _other_clock(late_ns: float, stamp_ns: int) -> str:
    if abs(late_ns) > _SAME_CLOCK_NS:
        return f"has stamps of another age ({_day(stamp_ns)})"
    return f"has stamps that lie {abs(late_ns) / NANOSECONDS_PER_SECOND:.2f} s {'back' if late_ns > 0 else 'ahead'}"


def _day(stamp_ns: int) -> str:
    try:
        return datetime.fromtimestamp(stamp_ns / NANOSECONDS_PER_SECOND, timezone.utc).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{stamp_ns} ns"
