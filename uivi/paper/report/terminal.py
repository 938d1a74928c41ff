"""The report on the terminal: tables, and one line per run."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from uivi.paper.report.section import Section
from uivi.paper.report.sections import by_section, section_of
from uivi.paper.results import Result, run_name


def table(results: list[Result]) -> Group:
    """Returns one table per section, with the columns that fit on a terminal."""
    return Group(*(_table(section, members) for section, members in by_section(results)))


def one_line(result: Result) -> str:
    """Returns the outcome of one run in one line."""
    config = result["config"]
    effort = "" if config["effort"] == "full" else f" ({config['effort']})"
    seeds = f"{len(config['seeds'])} seed{'' if len(config['seeds']) == 1 else 's'}"
    # Chains have no updates.
    updates = f"{config['num_steps']:,} updates, " if config["num_steps"] else ""
    return (
        f"{run_name(result)}{effort}: {section_of(result).summary(result)}, {seeds}, {updates}"
        f"{result['seconds_per_fit']:.1f} s per fit"
    )


def _table(section: Section, results: list[Result]) -> Table:
    columns = [column for column in section.columns if column.on_terminal]
    made = Table("run", title=section.title)
    for column in columns:
        # Headers may wrap between words, numbers may not; on a narrow terminal the name of the run wraps first.
        whole = [*column.header.split(), *(column.cell(result) for result in results)]
        width = max(8, *map(len, whole))
        made.add_column(Text(column.header), min_width=width, max_width=width)
    for result in results:
        flags = (("bold red" if column.flagged(result) else "", column.cell(result)) for column in columns)
        made.add_row(Text(run_name(result)), *(Text(cell, style) for style, cell in flags))
    return made
