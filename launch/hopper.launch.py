"""The hopper, live: phase and height from its accelerometers, with pictures and recording.

    ros2 launch onboard_estimation hopper.launch.py                      with ROS 2
    onboard-estimation launch hopper.launch.py                           without it
    ... source:=simulated hops:=2m record:=my_bag rviz:=true
    ... control:=estimate                                                the simulated robot goes by the live estimate
    ... source:=bag bag:=recordings/run_7

With `source:=hardware` nothing is started for the sensors: the drivers run elsewhere, the estimator waits for their
topics and says for which.
"""

from launch import LaunchDescription

from onboard_estimation.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(
        __file__,
        "hopper",
        scenarios="hardware, uneven or ideal",
        variant="hops",
        variants="mixed, 1m, 2m, 3m or 4m",
        estimators="kf1, kf2, ...",
        model="filter_model",
        models="filter parameters",
        controlled=True,
    ).live()
