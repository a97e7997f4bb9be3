"""The live graph from the command line: looking into it, recording it, playing bags into it, and what it needs to run.

Ordinary rclpy code; nothing here knows of typer.
"""
