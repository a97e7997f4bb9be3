"""A robot in a package of its own: all that the suite needs to know are the entry points."""

from setuptools import setup

setup(
    name="turntable_estimation",
    version="0.1.0",
    py_modules=["turntable", "turntable_command", "turntable_log", "turntable_main", "turntable_node"],
    entry_points={
        "onboard_estimation.robots": ["turntable = turntable:ROBOT"],
        "onboard_estimation.commands": ["turns = turntable_command:app"],
        "onboard_estimation.converters": ["turntable_log = turntable_log:read_log"],
        "console_scripts": ["turntable_estimator = turntable_main:estimator"],
    },
)
