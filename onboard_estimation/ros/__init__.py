"""What nodes and offline tools share: messages as measurements, estimates as messages. Imports no ROS."""
