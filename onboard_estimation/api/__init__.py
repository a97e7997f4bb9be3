"""What `import onboard_estimation` offers, documented in docs/python.md and kept stable."""
