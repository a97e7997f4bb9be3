"""What a check found: whether it is well, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "fault"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor.

    Attributes
    ----------
    subject
        What was looked at.
    state
        `ok`; `note`: works, could be better, or is good to know; `fault`: something will not work.
    text
        What there is, with numbers.
    repair
        What to do about it, one line; empty where there is nothing to do.
    """

    subject: str
    state: State
    text: str
    repair: str = ""
