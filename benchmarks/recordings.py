"""Where recordings are that benchmarks need and the repository does not hold."""

from __future__ import annotations

import os
from pathlib import Path

from onboard_estimation.base.errors import UserError


def recordings(*names: str) -> Path:
    """A folder of them: below ONBOARD_ESTIMATION_DATA, or beside the repository.

    Raises
    ------
    UserError
        It is not there.
    """
    data = Path(os.environ.get("ONBOARD_ESTIMATION_DATA", Path(__file__).parents[2] / "shared" / "data"))
    folder = data.joinpath(*names)
    if not folder.is_dir():
        raise UserError(f"the recordings are not in {folder}; set ONBOARD_ESTIMATION_DATA")
    return folder
