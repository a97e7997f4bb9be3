"""One connection's conversation with a DataStream server: what is asked, and frames of what comes, with names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from drivers.vicon import protocol

_NO_POSES = protocol.Poses([], np.empty(0, dtype=protocol.SEGMENTS))
_KINDS = {2: "subject info", 5: "frame info", 9: "global segments"}


class Frame(NamedTuple):
    """One frame.

    Attributes
    ----------
    number
        That the server counts; it falls where a recording begins anew.
    clock_number
        That the cameras count, or else the same.
    latency_s
        From exposure to sending, as told; None: it is not.
    """

    number: int
    clock_number: int
    latency_s: float | None
    poses: protocol.Poses


class Session:
    """Takes bytes of one connection, from its beginning.

    Attributes
    ----------
    answer
        Bytes to be sent now, and to be emptied then.
    is_answered
        Whether the server has said what it has.
    subjects
        Those that the server knows now.
    rates_hz
        Of the frames, the stream's own first: candidates for what the clock number counts by.

    Raises
    ------
    StreamError
        By `feed`: what comes is no DataStream, contradicts itself, or lacks what is needed.
    """

    def __init__(self) -> None:
        self._packets = protocol.Packets()
        self._layout: protocol.Layout | None = None
        self.answer, self.is_answered = b"", False
        self._period_hz: tuple[float, ...] = ()
        self._table_hz: tuple[float, ...] = ()
        self.subjects: tuple[protocol.Subject, ...] = ()
        self._poses: protocol.Poses = _NO_POSES
        self._latency_s: float | None = None

    @property
    def rates_hz(self) -> tuple[float, ...]:
        return self._period_hz + self._table_hz

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Frames that are complete now; with each, the attributes are those of its packet."""
        for packet in self._packets.feed(data):
            if self._layout is None or not self._layout.fits(packet):
                self._layout = protocol.layout_of(packet)
            frame = self._take(self._layout.read(packet))
            if frame is not None:
                yield frame

    def _take(self, content: protocol.Content) -> Frame | None:
        if content.offered is not None:
            self._offer(content.offered)
        if content.period_s is not None:
            self._period_hz = _plausible([1.0 / content.period_s])
        if content.rates_hz is not None:
            self._table_hz = _plausible(content.rates_hz.values())
        if content.subjects is not None and content.subjects != self.subjects:
            self.subjects = content.subjects
        if content.poses is not None or protocol.GLOBAL_SEGMENTS not in content.unchanged:
            self._poses = content.poses or _NO_POSES
        if content.latency_s is not None or protocol.LATENCY_INFO not in content.unchanged:
            self._latency_s = content.latency_s
        if content.frame is None:
            return None
        return Frame(content.frame, content.hardware_frame or content.frame, self._latency_s, self._poses)

    def _offer(self, offered: frozenset[int]) -> None:
        lacking = protocol.NEEDED - offered
        if lacking:
            raise protocol.StreamError(
                f"the server does not offer {', '.join(_KINDS[kind] for kind in sorted(lacking))}"
            )
        self.answer, self.is_answered = protocol.encode_answer(protocol.WANTED & offered), True


def body_names(subjects: Iterable[protocol.Subject]) -> dict[tuple[int, int], str]:
    """Name of each segment by its ids: `subject/segment`, or that of a subject which has but one."""
    return {
        (subject.subject_id, segment.segment_id): (
            subject.name if len(subject.segments) == 1 else f"{subject.name}/{segment.name}"
        )
        for subject in subjects
        for segment in subject.segments
    }


def _plausible(rates_hz: Iterable[float]) -> tuple[float, ...]:
    return tuple(rate for rate in rates_hz if 1.0 <= rate <= 20_000.0)
