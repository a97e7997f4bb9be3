"""Sensors and motion capture as ROS 2 nodes; `emulators` speak their wire protocols without the hardware."""
