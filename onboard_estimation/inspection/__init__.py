"""What is in a recording and what is wrong with it."""
