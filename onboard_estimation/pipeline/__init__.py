"""From measurements to estimates: order, refusal, recovery, counts; free of ROS, files and clocks."""
