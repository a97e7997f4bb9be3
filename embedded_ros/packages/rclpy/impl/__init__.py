"""Parts of rclpy that programs import by their long names."""
