"""Replays a bag of a thruster chain through the live estimator, in simulated time, losing nothing.

    ros2 launch onboard_estimation thruster_chain_replay.launch.py bag:=recordings/run_7
    onboard-estimation launch thruster_chain_replay.launch.py bag:=recordings/run_7 rate:=0
    ... bag:=converted config:=converted/thruster_chain.yaml namespace:=/

With `rate:=0` the player goes as fast as the estimator takes the messages. Estimates that the bag holds from its own
run are not played. The launch ends with the bag.
"""

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(
        __file__,
        "thruster_chain",
        estimators="robust, paper_ukf or gyros",
        model="calibration",
        models="a calibration",
        truth_starts=True,
    ).replay()
