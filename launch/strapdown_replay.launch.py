"""Replays a bag of a strapped-down IMU through the live estimator, in simulated time, losing nothing.

onboard-estimation launch strapdown_replay.launch.py bag:=recordings/walk rate:=0 record:=replayed
"""

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(__file__, "strapdown").replay()
