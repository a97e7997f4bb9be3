"""Frames of transforms (`/tf`, `/tf_static`) as topics of poses: `/tf:foot` is the pose of the frame `foot`.

It is given in the frame that all others hang on, through whatever lies between; `/tf:map:foot` gives it in `map`. What
is on the topic with `_static` behind its name counts at all times, and so does a transform that never changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.bag import Bag, RawMessage
from onboard_estimation.bags.bulk import Column, read_channels
from onboard_estimation.bags.topics import STATIC, TREE_TYPES, is_frame
from onboard_estimation.base.errors import UserError, first_of, printable
from onboard_estimation.base.measurement import POSE, Channel
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.ros.measurements import MessageFault, is_no_rotation, transforms

Integers = NDArray[np.int64]
Rows = NDArray[np.float64]

_NAMED = 20
_LONGEST_GAP_S = 0.1
"""Between two transforms that are interpolated, where those of another frame give the stamps."""


def read_topics(bag: Bag, channels: Mapping[str, Channel], unheard: Mapping[str, Channel] = {}) -> dict[str, Column]:
    """As `read_channels`, of frames as well. Raises as that and `read_frames` do."""
    frames = [topic for topic in channels if topic not in bag.topics and is_frame(topic, bag.topics)]
    others = {topic: channel for topic, channel in channels.items() if topic not in frames}
    return {**read_frames(bag, frames), **read_channels(bag, others, unheard=unheard)}


def read_frames(bag: Bag, names: Sequence[str]) -> dict[str, Column]:
    """Poses of frames by their names, all in one fixed frame.

    Raises
    ------
    UserError
        A frame is not there, hangs on two others, never moves, or no transform connects it with the others asked for;
        a topic holds no transforms.
    """
    trees: dict[str, _Tree] = {}
    found: dict[str, Column] = {}
    fixed: dict[str, str] = {}
    for name in names:
        topic, _, asked = name.partition(":")
        base, _, frame = asked.rpartition(":")
        tree = trees[topic] = trees.get(topic) or _Tree(bag, topic)
        chain = tree.chain(frame, base)
        found[name] = _poses(chain)
        fixed.setdefault(chain[-1].parent, frame)
    if len(fixed) > 1:
        given = printable(", ".join(f"{frame} in {parent}" for parent, frame in fixed.items()))
        raise UserError(
            f"{', '.join(trees)}: no transform connects the frames that poses are given in ({given}): record it on "
            f"{next(iter(trees))}{STATIC}, or take each in one that they share (TOPIC:FIXED:FRAME)"
        )
    return found


class _Edge(NamedTuple):
    """Transforms from a frame to its parent."""

    parent: str
    child: str
    is_static: bool
    said: Column

    def at(self, stamps_ns: Integers) -> tuple[Rows, NDArray[np.bool_]]:
        """Poses (K, 7) at stamps (K,), and where they are known (K,)."""
        if self.is_static or not np.ptp(self.said.values, axis=0).any():
            return np.tile(self.said.values[-1], (len(stamps_ns), 1)), np.ones(len(stamps_ns), dtype=np.bool_)
        return BodyTrack.clean(self.child, self.said.stamps_ns, self.said.values).at(stamps_ns, _LONGEST_GAP_S)


class _Tree:
    """All transforms on a topic and its static one."""

    def __init__(self, bag: Bag, topic: str) -> None:
        if bag.types[topic] not in TREE_TYPES:
            raise UserError(f"{printable(topic)} is {bag.types[topic]}, which holds no frames")
        self._topic = printable(topic)
        self._above: dict[str, list[_Edge]] = {}
        for one in filter(bag.topics.get, (topic, topic + STATIC)):
            rows: dict[tuple[str, str], list[tuple[int, int, int, Rows]]] = {}
            faults: Counter[str] = Counter()
            for block in bag.blocks([one]):
                numbers = (block.order, block.log_times_ns, block.starts, block.lengths)
                for place, log_time_ns, start, length in zip(*(row.tolist() for row in numbers), strict=True):
                    raw = RawMessage(one, log_time_ns, block.buffer[start : start + length].tobytes())
                    try:
                        for parent, child, stamp, value in transforms(bag.deserialize(raw)):
                            rows.setdefault((parent, child), []).append((place, stamp, log_time_ns, value))
                    except MessageFault as fault:
                        faults[str(fault)] += 1
            for (parent, child), found in rows.items():
                by_order = zip(*sorted(found, key=itemgetter(0)), strict=True)
                order, stamps_ns, log_times_ns, values = map(np.array, by_order)
                said = Column(stamps_ns, log_times_ns, values, order, faults)
                above = self._above.setdefault(child, [])
                if all(edge.parent != parent for edge in above):
                    above.append(_Edge(parent, child, one != topic, said))

    def chain(self, frame: str, fixed: str) -> list[_Edge]:
        """From a frame up to the fixed one; where that is not named, to the one that hangs on no other."""
        edges: list[_Edge] = []
        at = frame
        while at != fixed and (above := self._above.get(at)):
            above = [edge for edge in above if edge.parent == fixed] or above
            if len(above) > 1 or len(edges) > len(self._above):
                parents = printable(" and in ".join(edge.parent for edge in above))
                name = f"{self._topic}:FIXED:{printable(frame)}"
                raise UserError(f"{self._topic}: {printable(at)} is given in {parents}: name the one meant, as {name}")
            edges.append(above[0])
            at = above[0].parent
        if not edges or fixed not in ("", at):
            there = first_of([printable(one) for one in sorted(self._above)], _NAMED)
            wanted = f"{frame} in {fixed}" if fixed else frame
            raise UserError(f"{self._topic} does not tell the pose of {printable(wanted)}; it has {there or 'none'}")
        if all(edge.is_static for edge in edges):
            raise UserError(f"{self._topic}: {printable(frame)} is fixed to {printable(at)}, it never moves")
        return edges


def _poses(chain: Sequence[_Edge]) -> Column:
    """Of the first frame of a chain, at the stamps of those transforms in it that came most often."""
    usual = max((edge for edge in chain if not edge.is_static), key=lambda edge: len(edge.said.order)).said
    values, known, faults = np.zeros(0), np.ones(len(usual.order), dtype=np.bool_), usual.faults.copy()
    for edge in chain:
        poses, there = (usual.values, known) if edge.said is usual else edge.at(usual.stamps_ns)
        values = poses if edge is chain[0] else _composed(poses, values)
        if lacking := int(np.count_nonzero(known & ~there)):
            faults[printable(f"no pose of {edge.child} in {edge.parent} within {_LONGEST_GAP_S} s")] = lacking
        known = known & there
    return replace(usual, values=values, faults=faults).at(known)


def _composed(first: Rows, second: Rows) -> Rows:
    """Poses `second` (K, 7), given in the frames `first` (K, 7), in the frames of those; NaN where one is none."""
    both = np.hstack([first, second])
    good = np.isfinite(both).all(axis=1) & ~is_no_rotation(*both[:, 3:7].T) & ~is_no_rotation(*both[:, 10:].T)
    out = np.full((len(first), 7), np.nan)
    turns, further = (Rotation.from_quat(one[good][:, POSE.orientation]) for one in (first, second))
    out[good, POSE.position] = first[good, POSE.position] + turns.apply(second[good, POSE.position])
    out[good, POSE.orientation] = (turns * further).as_quat()
    return out
