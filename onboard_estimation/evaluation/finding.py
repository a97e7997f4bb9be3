"""One sentence of an inspection for a person, and how bad it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One sentence for a person."""

    severity: Severity
    text: str
