"""Results to tables, figures and one HTML page; never trains."""

from uivi.paper.report.page import write_page
from uivi.paper.report.terminal import one_line, table
from uivi.paper.results import load_results

__all__ = ["load_results", "one_line", "table", "write_page"]
