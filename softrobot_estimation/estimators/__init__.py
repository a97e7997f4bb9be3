"""The robot's filters and smoothers."""
