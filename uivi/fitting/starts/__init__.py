"""Where a fit starts: the search, and the comparison of several starts."""
