"""Random numbers of a filter that can be rolled back: they are part of its state, not of a generator's.

Philox is counter-based (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a key and a counter are
all of its state. Filtered once more from the same state, a measurement meets the same numbers, to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Draws(NamedTuple):
    """The random numbers to come.

    Attributes
    ----------
    key
        Seed, not negative, less than 2**128: other keys give independent numbers.
    taken
        How many generators were taken, less than 2**64.
    """

    key: int
    taken: int = 0

    def generator(self) -> tuple[np.random.Generator, Draws]:
        """A generator for one step, and the numbers after it.

        It may give 2**192 blocks before it comes to those of the next.
        """
        return np.random.Generator(np.random.Philox(key=self.key, counter=self.taken << 192)), Draws(
            self.key, self.taken + 1
        )
