"""LandSalp's rclpy nodes."""
