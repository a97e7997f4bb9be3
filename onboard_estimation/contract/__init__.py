"""What a robot brings along and what it may bring, and the records that it is given and gives."""
