"""Names of the forms of residual models, for what offers them without making any."""

from __future__ import annotations

FORMS = ("calibrated", "local", "gaussian_process")
