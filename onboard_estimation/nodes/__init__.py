"""rclpy nodes that all robots share. `onboard_estimation.nodes.run` starts them, under ROS 2 or without it."""
