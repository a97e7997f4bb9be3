"""What a NatNet server answers, over a way that loses, repeats and mixes datagrams, and that others may send by.

What a server tells once, when it changes, may be lost, and what it seems to tell may be another's. So it is asked again
and again; an answer counts that was asked for, one to a question; and what it says holds once the answer to a further
question is the same. A single forged datagram makes a doubt at most, which the next answers end.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

AT_ONCE_S, AGAIN_S = 0.01, 0.5
"""From an answer that has to be confirmed to the next question; from a question without an answer."""
HOLDS_S = 5.0
"""From the question whose answer confirmed it: what was not confirmed for longer is in doubt."""


class Answers(Generic[T]):
    """Answers to one question; times are of the monotonic clock, s.

    Parameters
    ----------
    period_s
        How often it is asked while the answer is the same.

    Attributes
    ----------
    confirmed_s
        When what holds was asked for last.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._heard: T | None = None  # not confirmed yet, or again
        self._asked_s, self._next_s, self.confirmed_s = 0.0, 0.0, -HOLDS_S
        self._is_open = self._is_certain = False

    def is_certain(self, now_s: float) -> bool:
        """Whether the last answer can be relied on."""
        return self._is_certain and now_s - self.confirmed_s <= HOLDS_S

    def doubt(self, now_s: float) -> None:
        """Something else says that the answer may be another by now: two more are needed."""
        self._is_certain, self._heard = False, None
        self._next_s = min(self._next_s, now_s + AT_ONCE_S)

    def is_due(self, now_s: float) -> bool:
        """Whether to ask now; it is taken to be done then."""
        if now_s < self._next_s:
            return False
        if not self._is_open:  # else what comes may answer the earlier question still
            self._asked_s = now_s
        self._next_s, self._is_open = now_s + AGAIN_S, True
        return True

    def take(self, answer: T, now_s: float) -> bool:
        """An answer came; False: it was not asked for, and is not heeded."""
        if not self._is_open:
            return False
        self._is_open = False
        if answer == self._heard:
            self._is_certain, self.confirmed_s = True, self._asked_s
            self._next_s = self._asked_s + self._period_s
        else:
            self._heard, self._is_certain = answer, False
            self._next_s = now_s + AT_ONCE_S
        return True
