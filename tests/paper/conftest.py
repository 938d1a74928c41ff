"""Writes results into a directory of their own."""

import json

import pytest

from uivi.paper import report


@pytest.fixture
def write(tmp_path):
    """Writes results and returns the page."""

    def write(*all_results):
        for i, one in enumerate(all_results):
            (tmp_path / str(i)).mkdir()
            (tmp_path / str(i) / "result.json").write_text(json.dumps(one))
        return report.write_page(tmp_path).read_text()

    return write
