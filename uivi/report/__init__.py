"""Results to tables, figures and one HTML page; never trains."""

from uivi.report.page import write_page
from uivi.report.results import load_results
from uivi.report.tables import one_line, table

__all__ = ["load_results", "one_line", "table", "write_page"]
