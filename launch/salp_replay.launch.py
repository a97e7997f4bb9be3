"""Replays a bag of LandSalp through the live estimator, in simulated time, losing nothing.

    ros2 launch onboard_estimation salp_replay.launch.py bag:=recordings/run_7
    onboard-estimation launch salp_replay.launch.py bag:=recordings/run_7 rate:=0 record:=replayed

With `rate:=0` the player goes as fast as the estimator takes the messages; what it then publishes is, to the last bit,
what it would have published live for the same messages in the same order. Estimates that
the bag holds from its own run are not played. The launch ends with the bag.
"""

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(__file__, "salp", model="residual_model", models="a residual model", truth_starts=True).replay()
