"""LandSalp, live: pose and shape from its gyros and commands, with pictures and recording.

    ros2 launch onboard_estimation salp.launch.py                        with ROS 2
    onboard-estimation launch salp.launch.py                             without it
    ... source:=simulated gait:=backward record:=my_bag rviz:=true
    ... source:=bag bag:=recordings/run_7
    ... source:=hebi                                                     its actuators on the network
    ... source:=hebi_imitation                                           the same without actuators

With `source:=hardware` nothing is started for the sensors: the drivers run elsewhere, the estimator waits for their
topics and says for which.
"""

from launch import LaunchDescription

from onboard_estimation.robot_launch import Driver, RobotLaunch


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
        drivers={
            "hebi": Driver("hebi", file="salp_hebi.yaml", parameters={"source": "network", "robot": "salp"}),
            "hebi_imitation": Driver(
                "hebi",
                file="salp_hebi.yaml",
                parameters={"source": "imitation", "robot": "salp"},
                simulated=True,
                takes=("scenario", "variant", "seed", "publish_truth"),
            ),
        },
    ).live()
