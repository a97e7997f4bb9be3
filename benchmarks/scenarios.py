"""Which magnitudes the simulations of a benchmark had."""

from __future__ import annotations

import hashlib

from onboard_estimation.base.installed import resource


def scenario_hash(file: str) -> str:
    """First sixteen digits of the SHA-256 of a scenario file among the resources."""
    return hashlib.sha256(resource(file).read_bytes()).hexdigest()[:16]
