"""Logs of the turntable's own controller as bags: a converter of another package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from turntable import TABLE

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.converters import Converted


def read_log(file: Path, as_recorded: bool = False) -> Converted:
    """The controller's log: time in s and rate of turn in deg/s, separated by commas.

    Turned clockwise it counts up: the sign is changed, unless left as recorded.
    """
    try:
        time_s, rate_deg_s = np.loadtxt(file, delimiter=",", unpack=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is no log of the turntable: {error}") from error
    values = np.full((len(time_s), 6), np.nan)
    values[:, :2], values[:, 2] = 0.0, np.deg2rad(rate_deg_s if as_recorded else -rate_deg_s)
    notes = () if as_recorded else ("Sign of the rate changed: the controller counts clockwise.",)
    stamps_ns = np.round(1e9 * time_s).astype(np.int64)
    return Converted(recording=Recording((Series(TABLE, stamps_ns, values),), ()), notes=notes)
