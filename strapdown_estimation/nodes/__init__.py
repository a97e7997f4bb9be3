"""The strapped-down IMU's rclpy node."""
