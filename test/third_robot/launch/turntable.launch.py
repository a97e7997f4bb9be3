"""The turntable, live or from a bag."""

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(__file__, "turntable", package="turntable_estimation").live()
