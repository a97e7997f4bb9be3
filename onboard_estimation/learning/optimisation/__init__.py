"""Parameters searched within bounds, through one interface, whatever the method."""
