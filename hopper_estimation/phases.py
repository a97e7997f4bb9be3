"""Phases of a hop and the events between them, as the compiled functions and the messages number them.

    drop -- touchdown --> stance down -- max squat --> stance up -- liftoff --> rebound -- apex --> drop

Section III of the paper. Before the first drop the robot stands, or is flown to its starting height: `startup`.
"""

from __future__ import annotations

DROP, STANCE_DOWN, STANCE_UP, REBOUND, STARTUP = range(5)
PHASES = ("drop", "stance_down", "stance_up", "rebound", "startup")
PHASE_WORDS = ("while dropping", "in stance, down", "in stance, up", "while rebounding", "before the first drop")
"""Behind a quantity's name in a sentence."""

TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX = range(4)
EVENTS = ("touchdown", "max_squat", "liftoff", "apex")
PHASE_AFTER = (STANCE_DOWN, STANCE_UP, REBOUND, DROP)
"""Phase that each event begins."""
