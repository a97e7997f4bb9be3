"""Package of robots and file formats of other people's recordings, for pip; onboard_estimation is installed before."""

from setuptools import find_packages, setup

setup(
    name="recorded_robots",
    version="0.1.0",
    description="Robots and file formats of other people's recordings, for onboard_estimation",
    license="Apache-2.0",
    packages=find_packages(include=["recorded_robots", "recorded_robots.*"]),
    package_data={"recorded_robots": ["py.typed", "pendulum/*.yaml"]},
    python_requires=">=3.10",
    install_requires=["onboard_estimation", "c3d>=0.6,<0.7"],
    entry_points={
        "onboard_estimation.robots": [
            "pendulum = recorded_robots.pendulum.robot:ROBOT",
            "two_link = recorded_robots.two_link.robot:ROBOT",
        ],
        "onboard_estimation.converters": [
            "actuated-pendulum = recorded_robots.pendulum.recordings:read_actuated_pendulum",
            "pyshoe = recorded_robots.pyshoe:read_pyshoe",
            "quadruped = recorded_robots.quadruped:read_quadruped",
            "soft-arm = recorded_robots.soft_arm:read_soft_arm",
            "triple-pendulum = recorded_robots.pendulum.recordings:read_triple_pendulum",
            "two-link-imu = recorded_robots.two_link.recordings:read_two_link_imu",
        ],
    },
)
