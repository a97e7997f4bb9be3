"""A strapped-down IMU, live: position, velocity and attitude of a foot or of a hopping robot.

onboard-estimation launch strapdown.launch.py                        drivers run elsewhere
... source:=bag bag:=recordings/walk record:=my_bag
"""

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(__file__, "strapdown").live()
