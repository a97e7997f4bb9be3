"""A table of a campaign."""

from __future__ import annotations

from pathlib import Path

from onboard_estimation.base.installed import resource

TABLE = """
robot: salp
simulated: {scenario: ideal, variants: [forward], seeds: 0-3, duration_s: 6}
what_ifs:
  as recorded: {}
  biased: {bias: {imu/link_3.gyro_z: 0.05}}
options: {config: CONFIG, settle: 1.0}
"""


def table(folder: Path, text: str = TABLE) -> Path:
    path = folder / "table.yaml"
    path.write_text(text.replace("CONFIG", str(resource("config/salp_ideal.yaml"))))
    return path
