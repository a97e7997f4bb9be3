"""Links that hang one from the other on a pivot: motion, masses, inertias and frictions from joint angles."""
