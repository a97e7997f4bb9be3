"""What is judged of this kind of robot alone."""
