"""What all motion capture systems share here: frames of bodies, their axes, what is published, and the node."""
