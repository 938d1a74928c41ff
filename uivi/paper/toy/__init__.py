"""Section 4.1: the toys."""
