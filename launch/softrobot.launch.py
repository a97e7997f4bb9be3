"""Soft robot, live: tip and stiffness from chamber pressures and the wrench at its base, with pictures and recording.

    ros2 launch onboard_estimation softrobot.launch.py                        with ROS 2
    onboard-estimation launch softrobot.launch.py                             without it
    ... source:=simulated scenario:=payload record:=my_bag rviz:=true
    ... source:=bag bag:=recordings/run_7
    ... source:=bag bag:=converted config:=converted/softrobot.yaml namespace:=/

    ... source:=hardware port:=eth1                                           EtherCAT: config/softrobot_ethercat.yaml
    ... source:=ethercat_emulator                                             a simulated robot at the end of a cable
    ... source:=hardware drivers:=false                                       your own drivers run elsewhere

The emulated sensors want a cable of their own, which root makes (docs/drivers.md):

    sudo ip link add ethercat_near type veth peer name ethercat_far
    sudo ip link set ethercat_near up; sudo ip link set ethercat_far up

Without drivers the estimator waits for the sensors' topics and says for which.
"""

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import Driver, RobotLaunch

CHAMBERS = ("chamber_1", "chamber_2", "chamber_3")
MEASURED = ("wrench", *(f"pressure/{one}" for one in CHAMBERS))
SENSORS = "softrobot_ethercat.yaml"


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(
        __file__,
        "softrobot",
        scenarios="laboratory, payload, upright or paper",
        estimators="see `onboard-estimation robots softrobot`",
        drivers={
            "hardware": [Driver("ethercat_wrench", file=SENSORS)],
            "ethercat_emulator": [
                Driver(
                    "softrobot_simulator",
                    measures=False,
                    simulates=True,
                    moved={topic: f"emulated_{topic}" for topic in MEASURED},
                ),
                Driver("ethercat_wrench_emulator", {"bus.interface": "ethercat_far"}, measures=False, file=SENSORS),
                Driver("ethercat_wrench", {"bus.interface": "ethercat_near"}, file=SENSORS),
            ],
        },
        port="network interface of the force-torque sensor",
        port_parameter="bus.interface",
    ).live()
