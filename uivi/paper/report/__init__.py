"""Turns results into a table on the terminal and one HTML page with figures. It never fits anything."""

from uivi.paper.report.loading import Loaded, load_results
from uivi.paper.report.page import write_page
from uivi.paper.report.terminal import one_line, table

__all__ = ["Loaded", "load_results", "one_line", "table", "write_page"]
