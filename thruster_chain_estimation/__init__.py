"""Planar chains of links with thrusters and inertia: angles, masses and inertias from one IMU per link."""
