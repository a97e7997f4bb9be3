"""JSON as this project writes it: indented, keys sorted, no numbers that JSON does not have."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(value: Any) -> str:
    """Indented JSON with sorted keys; NaN and infinities become null."""
    return json.dumps(plain(value), indent=2, sort_keys=True, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """The value as JSON has it: mappings, lists, text and numbers; null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
