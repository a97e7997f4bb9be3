"""`python -m onboard_estimation`: the command line where its script is not on PATH, as with ROS 2."""

from __future__ import annotations

from onboard_estimation.cli import main

if __name__ == "__main__":
    main()
