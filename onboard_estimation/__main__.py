"""`python -m onboard_estimation`: the command line where the script `onboard-estimation` is not on PATH, as with ROS 2."""

from onboard_estimation.cli import main

if __name__ == "__main__":
    main()
