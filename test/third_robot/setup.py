"""A robot in a package of its own: all that the suite needs to know is the entry point."""

from setuptools import setup

setup(
    name="turntable_estimation",
    version="0.1.0",
    py_modules=["turntable", "turntable_main", "turntable_node"],
    entry_points={
        "onboard_estimation.robots": ["turntable = turntable:ROBOT"],
        "console_scripts": ["turntable_estimator = turntable_main:estimator"],
    },
)
