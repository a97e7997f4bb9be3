"""Soft robot, live: tip and stiffness from chamber pressures and the wrench at its base, with pictures and recording.

    ros2 launch onboard_estimation softrobot.launch.py                        with ROS 2
    onboard-estimation launch softrobot.launch.py                             without it
    ... source:=simulated scenario:=payload record:=my_bag rviz:=true
    ... source:=bag bag:=recordings/run_7
    ... source:=bag bag:=converted config:=converted/softrobot.yaml namespace:=/

With `source:=hardware` nothing is started for the sensors: the drivers run elsewhere, the estimator waits for their
topics and says for which.
"""

from launch import LaunchDescription

from onboard_estimation.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(
        __file__,
        "softrobot",
        scenarios="laboratory, payload, upright or paper",
        estimators="see `onboard-estimation robots softrobot`",
    ).live()
