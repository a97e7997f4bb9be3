"""Configurations of LandSalp's filter for the simulator's scenarios."""

from __future__ import annotations

from onboard_estimation.base.configuration import load
from onboard_estimation.base.installed import resource
from salp_estimation.model.configuration import SalpConfiguration

IDEAL_NOISE: SalpConfiguration = load(SalpConfiguration, resource("config/salp_ideal.yaml"))
"""Where the motion follows the model: what is optimal there is checked with this."""
