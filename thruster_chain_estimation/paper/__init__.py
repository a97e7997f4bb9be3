"""The paper made again: its simulation and filter by many seeds, its tables and figures beside what comes out."""
