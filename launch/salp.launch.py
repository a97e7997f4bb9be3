"""LandSalp, live: pose and shape from its gyros and commands, with pictures and recording.

    ros2 launch onboard_estimation salp.launch.py                        with ROS 2
    onboard-estimation launch salp.launch.py                             without it
    ... source:=simulated gait:=backward record:=my_bag rviz:=true
    ... source:=bag bag:=recordings/run_7
    ... source:=hardware                                                 its HEBI actuators on the network
    ... source:=hardware drivers:=false                                  your own drivers run elsewhere
    ... source:=hebi_imitation                                           the same without actuators

Without drivers the estimator waits for the sensors' topics and says for which.
"""

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import Driver, RobotLaunch


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
            "hardware": [
                Driver(
                    "hebi",
                    {"source": "network", "robot": "salp"},
                    knows_robot=True,
                    file="salp_hebi.yaml",
                )
            ],
            "hebi_imitation": [
                Driver(
                    "hebi",
                    {"source": "imitation", "robot": "salp"},
                    simulates=True,
                    takes=("scenario", "variant", "seed", "publish_truth", "truth_topics"),
                    file="salp_hebi.yaml",
                )
            ],
        },
    ).live()
