"""A judged run as a page in a folder, and beside others."""
