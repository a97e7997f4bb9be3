"""The hopper, live: phase and height from its accelerometers, with pictures and recording.

    ros2 launch onboard_estimation hopper.launch.py                      with ROS 2
    onboard-estimation launch hopper.launch.py                           without it
    ... source:=simulated hops:=2m record:=my_bag rviz:=true
    ... control:=estimate                                                the simulated robot goes by the live estimate
    ... source:=hardware port:=/dev/ttyUSB0 composed:=true               the driver in the estimator's process
    ... source:=serial_emulator                                          the same, a simulated robot on the wire
    ... source:=hardware drivers:=false                                  your own drivers run elsewhere
    ... source:=bag bag:=recordings/run_7

Without drivers the estimator waits for the sensors' topics and says for which.
"""

import os
import tempfile

from launch import LaunchDescription

from onboard_estimation.launching.robot_launch import Driver, RobotLaunch

EMULATED_PORT = f"{tempfile.gettempdir()}/onboard_estimation_serial_imu_{os.getuid()}"


def generate_launch_description() -> LaunchDescription:
    return RobotLaunch(
        __file__,
        "hopper",
        scenarios="hardware, uneven or ideal",
        variant="hops",
        variants="mixed, 1m, 2m, 3m or 4m",
        estimators="bounce, kf1, ...",
        model="filter_model",
        models="filter parameters",
        controlled=True,
        drivers={
            "hardware": [Driver("serial_imu")],
            "serial_emulator": [
                Driver("serial_imu_emulator", {"link": EMULATED_PORT}, measures=False, simulates=True),
                Driver("serial_imu", {"port": EMULATED_PORT}),
            ],
        },
        port="serial port of the two accelerometers",
    ).live()
