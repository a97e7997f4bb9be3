"""Which sensors speak together: messages of one instant are gathered, so that the state is corrected once by all.

Sensors whose messages had one stamp the last time are expected to have one again. Where one does not come, the others
wait until something later does, and no longer for it the next time; where one comes after all, it is taken up again.
Sensors with stamps of their own are never waited for.
"""

from __future__ import annotations

from typing import NamedTuple


class StampGroups(NamedTuple):
    """What is known of that; a value.

    Attributes
    ----------
    partners
        By sensor, those that it was last heard together with, itself among them.
    stamp_ns
        Of the instant that is being gathered; None before the first.
    heard
        Sensors that were heard at that instant, in that order.
    """

    partners: tuple[frozenset[int], ...]
    stamp_ns: int | None = None
    heard: tuple[int, ...] = ()

    @classmethod
    def start(cls, count: int) -> StampGroups:
        """So many sensors, which are all expected to speak together."""
        return cls((frozenset(range(count)),) * count)

    def is_over(self, stamp_ns: int) -> bool:
        """Whether something that comes at that stamp ends the instant that is being gathered."""
        return self.stamp_ns is not None and stamp_ns > self.stamp_ns

    def with_sensor(self, sensor: int, stamp_ns: int) -> StampGroups:
        """One more message."""
        if self.stamp_ns == stamp_ns:
            return self._replace(heard=(*self.heard, sensor))
        return StampGroups(self._learned(), stamp_ns, (sensor,))

    @property
    def is_whole(self) -> bool:
        """Whether all that were expected have been heard."""
        return self.partners[self.heard[0]] <= set(self.heard)

    def _learned(self) -> tuple[frozenset[int], ...]:
        together = frozenset(self.heard)
        return tuple(together if sensor in together else known for sensor, known in enumerate(self.partners))
