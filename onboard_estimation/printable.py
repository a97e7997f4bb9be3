"""Text of unknown origin, for a line that a person reads: names of files and topics, what a bag says of itself."""

from __future__ import annotations

from embedded_ros.errors import printable as printable
