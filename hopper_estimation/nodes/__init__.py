"""The hopper's rclpy nodes."""
