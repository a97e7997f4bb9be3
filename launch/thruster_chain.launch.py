"""Thruster chain, live: headings, masses and inertias from its IMUs and commands, with pictures and recording.

    ros2 launch onboard_estimation thruster_chain.launch.py                        with ROS 2
    onboard-estimation launch thruster_chain.launch.py                             without it
    ... source:=simulated scenario:=hardware record:=my_bag rviz:=true
    ... source:=bag bag:=recordings/run_7
    ... source:=bag bag:=converted config:=converted/thruster_chain.yaml namespace:=/

With `source:=hardware` nothing is started for the sensors: the drivers run elsewhere, the estimator waits for their
topics and says for which.
"""

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(
        __file__,
        "thruster_chain",
        scenarios="thrusters, hardware or load",
        variants="physical, paper, physical_2_off or paper_2_off (thrusters), mixed or one_off (hardware, load)",
        estimators="robust, paper_ukf or gyros",
        model="calibration",
        models="a calibration",
        truth_starts=True,
    ).live()
