"""Time: measurements in the order of their stamps, whatever the order of their arrival."""
