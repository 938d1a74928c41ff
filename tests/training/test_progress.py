"""The progress bar."""

import pytest

from uivi.training import progress


def test_the_bar_shows_steps_rate_and_bound(capsys):
    with progress.reporter(True, label="banana") as shown:
        shown.phase("searching for a start")
        shown.update(1_000, 2_000, 1234.5, "ELBO ≥ -1.234 ± 0.010")
        shown.update(2_000, 2_000, 1234.5, "ELBO ≥ -1.200 ± 0.010")
    out, err = capsys.readouterr()
    assert out == ""
    text = " ".join(err.split())
    for words in ("banana", "2,000/2,000", "1,234 updates/s"):
        assert words in text


def test_silent_means_silent(capsys):
    with progress.reporter(False) as shown:
        shown.phase("compiling")
        shown.update(10, 10, 1.0, "bound")
    assert capsys.readouterr() == ("", "")


def test_a_phase_is_shown_by_its_name(capsys):
    with progress.reporter(True) as shown:
        shown.phase("searching for a start")
    assert "searching for a start" in capsys.readouterr().err


def test_a_reporter_of_ones_own_is_used_as_it_is():
    own = progress.Silent()
    with progress.reporter(own) as shown:
        assert shown is own


def test_the_bar_goes_away_with_an_error(capsys):
    with pytest.raises(KeyError), progress.reporter(True):
        raise KeyError
    with progress.reporter(True) as shown:
        shown.update(10, 10, 1.0, "")
    assert "10/10" in capsys.readouterr().err


def test_a_reporter_must_say_how_to_update():
    with pytest.raises(TypeError, match="abstract"):
        progress.AbstractReporter()
