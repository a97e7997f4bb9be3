"""The soft robot's rclpy nodes."""
