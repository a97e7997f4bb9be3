"""LandSalp, live: pose and shape from its gyros and commands, with pictures and recording.

    ros2 launch onboard_estimation salp.launch.py                        with ROS 2
    onboard-estimation launch salp.launch.py                             without it
    ... source:=simulated gait:=backward record:=my_bag rviz:=true
    ... source:=bag bag:=recordings/run_7

With `source:=hardware` nothing is started for the sensors: the drivers run elsewhere, the estimator waits for their
topics and says for which.
"""

from launch import LaunchDescription

from onboard_estimation.robot_launch import RobotLaunch


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(
        __file__,
        "salp",
        scenarios="ideal or hardware",
        variant="gait",
        variants="forward, backward, left, right or turning",
        model="residual_model",
        models="a residual model",
        truth_starts=True,
    ).live()
