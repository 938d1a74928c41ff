"""The report reads results of every kind, also with gaps, and names the side of every bound."""

import re

import numpy as np
import pytest

from tests.paper.samples import (
    FIGURES,
    MAKERS,
    TITLES,
    autoencoder,
    count_images,
    iterations,
    logreg,
    printed,
    prior,
    toy,
)
from uivi.paper import DEVIATIONS, report, results
from uivi.paper.report import markup, plots
from uivi.paper.report.sections import SECTIONS
from uivi.paper.vae import section as vae
from uivi.paper.vae import table2


@pytest.mark.parametrize("kind", SECTIONS)
def test_one_result_of_one_kind(kind, write):
    page = write(MAKERS[kind]())
    assert count_images(page) == FIGURES[kind]
    assert TITLES[kind] in page
    assert not any(title in page for other, title in TITLES.items() if other != kind)
    assert "some device" in page
    assert "f00d" in page
    assert "href=" not in page
    assert "src='http" not in page
    assert "class='warning'" not in page


def test_a_mixture_has_all_sections_in_order(write):
    page = write(*(make() for make in reversed(MAKERS.values())), toy(method="sivi"), logreg(method="sivi"))
    places = [page.index(f"<h2>{title}") for title in TITLES.values()]
    assert places == sorted(places)
    assert count_images(page) == sum(FIGURES.values())
    assert all(page.count(markup.prose(text)) == 1 for texts in DEVIATIONS.values() for text in texts)


def test_numbers_and_sides(write):
    page = write(toy(), logreg(), autoencoder())
    elbos = [f"−23,59{i}.0{i} ± 0.01" for i in (1, 2, 3, 4)]
    others = ["0.00521 [0.00721]", "−0.2951", "−0.2658 ± 0.0097", "−98.110 ± 0.010", "−97.220 ± 0.010"]
    goal = "KL 0.00521, goal 0.01 (<span class='ok'>reached"
    assert [text for text in (*elbos, *others, goal) if text not in page] == []
    headers = set(re.findall("<th>(.*?)</th>", page))
    values = {h for h in headers if "ELBO" in h or "log p(x)" in h}
    sides = ("(lower bound)", "(upper bound)", "(no bound)", "(biased upwards)")
    assert len(values) >= 12
    assert all(header.endswith(sides) for header in values)


@pytest.mark.parametrize(
    ("ours", "flagged"), [(-95.58, False), (-95.60, True), (-92.58, True), (-92.60, False)]
)
def test_a_difference_from_table_2_is_flagged(ours, flagged, write):
    run = autoencoder(paper=ours)
    page = write(run)
    text = f"{ours + 94.09:.2f}".replace("-", "−")
    assert (f"<td class='flag'>{text}</td>" in page) is flagged
    assert table2.difference(run) == pytest.approx(ours + 94.09)


@pytest.mark.parametrize(("paper", "flags"), [(-96.54, 0), (-95.0, 1)])
def test_an_estimate_above_the_annealed_upper_bound_is_flagged(paper, flags, write):
    page = write(autoencoder(paper=paper, published=None, num_steps=400_000))
    assert page.count("<td class='flag'>") == flags


def test_figure_5_shows_both_presets_of_uivi_and_explicit_runs_do_not_drift(write):
    runs = [autoencoder(p, m) for p in ("paper", "default") for m in ("uivi", "explicit")]
    assert count_images(write(*runs)) == 2 + 1 + 1
    assert vae.shown(runs) == [runs[0], runs[2]]
    assert vae.shown(runs[1:2]) == runs[1:2]
    assert vae.drift_figures(runs[1:2]) == []


def test_the_gain_of_a_prior_is_over_the_normal_one_on_the_same_data(write):
    other = {"name": "vae-prior-fashion", "title": "Fashion-MNIST"}
    runs = [prior("exact", "normal", -91.0), prior(), prior(level=-100.0, **other)]
    page = write(*runs)
    assert [float(text.replace("−", "-")) for text in re.findall(r"<td>(1\.00|0\.00)</td>", page)] == [0, 1]
    assert page.count("<td>0.50</td>") == 3  # the seeds
    assert count_images(page) == 2


def test_the_reference_is_drawn_only_for_the_same_images():
    other = {"task": {"budget": {"drift_images": 8}}}
    assert vae.drift_figures([autoencoder()]) != vae.drift_figures([autoencoder(**other)])


def without_values(value):
    """Replaces every number of the evaluation by None."""
    if isinstance(value, dict):
        return {name: without_values(part) for name, part in value.items()}
    return [without_values(part) for part in value] if isinstance(value, list) else None


@pytest.mark.parametrize("kind", SECTIONS)
def test_nulls(kind, write):
    run = MAKERS[kind]()
    empty = without_values([seed | {"drift": None} for seed in run["seeds"]])
    history = dict.fromkeys(run["history"], [None, None]) | {"step": [1, 2], "seconds": [1.0, 1.5]}
    gaps = run | {"seeds": empty, "history": history, "published": None, "exhibit": {}}
    page = write(gaps)
    assert TITLES[kind] in page
    assert "<td>–</td>" in page
    assert "None" not in re.sub(r"<details>.*</details>", "", page, flags=re.DOTALL)
    assert "–" in printed(report.table([gaps]))
    assert report.one_line(gaps)


@pytest.mark.parametrize("kind", SECTIONS)
def test_a_history_of_one_row(kind, write):
    run = MAKERS[kind]()
    history = {name: column[:1] for name, column in run["history"].items()}
    assert count_images(write(run | {"history": history})) == FIGURES[kind]


def test_quick_and_shortened_runs_are_marked(write):
    page = write(logreg(effort="quick"), logreg(method="sivi"))
    assert "full, but 600 of 100,000 updates" in page
    assert "class='warning'" in page
    assert "<td class='text flag'>quick: not the paper&#x27;s protocol</td>" in page
    assert "<td class='text'>paper (quick)</td>" in page
    assert "paper-uivi (quick): " in report.one_line(logreg(effort="quick"))


def test_recomputed_features_are_never_called_hapt(write):
    name, title = "logreg-hapt-recomputed", "HAPT recordings, features recomputed (not UCI's matrix)"
    page = write(logreg(name=name, title=title))
    sentences = re.split(r"[.<>]", page)
    assert all("recomputed" in sentence for sentence in sentences if "hapt" in sentence.lower())
    assert "recomputed" in report.one_line(logreg(name=name, title=title))


def test_tables_for_the_terminal():
    runs = [make() for make in MAKERS.values()]
    text = printed(report.table(runs))
    assert all(title in text for title in TITLES.values())
    assert "KL(q‖p)" in text
    assert "Student-t" in text  # headers wrap
    assert "recovered" in text  # no word of a header is cut
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("toy", "banana default-uivi: KL(q‖p) 0.00521, 2 seeds, 600 updates, 30.0 s per fit"),
        (
            "logreg",
            "logreg-mnist paper-uivi: ELBO at least −23,591.01 ± 0.01, test log-likelihood per row −0.2658 ",
        ),
        ("iterations", "logreg-iterations paper-hmc-5: ELBO at least −23,591.01"),
        (
            "vae",
            "at least −97.220 ± 0.010 (Student-t), −95.00 by the paper's estimator (published −94.09), 1 seed",
        ),
        (
            "vae-prior",
            "bound-dsivi-prior: log p(x) at least −90.25 ± 0.01, ELBO from −94.44 ± 0.01 to −94.33 ± 0.01",
        ),
    ],
)
def test_one_line(kind, text):
    assert text in report.one_line(MAKERS[kind]())


def test_results_come_in_the_order_of_the_paper(tmp_path, write):
    write(iterations("hmc-20"), iterations("hmc-5"), autoencoder(), logreg("default"), logreg(), toy())
    found = [results.run_name(one) for one in report.load_results(tmp_path).results]
    regressions = ["logreg-mnist paper-uivi", "logreg-mnist default-uivi"]
    numbers = ["logreg-iterations paper-hmc-5", "logreg-iterations paper-hmc-20"]
    assert found == ["banana default-uivi", *regressions, *numbers, "vae-mnist paper-uivi"]


def test_compilation_is_left_out_of_the_time():
    run = logreg()
    assert results.seconds_per_update(run) == pytest.approx(1 / 100 / 2)
    assert results.curve(run, "elbo_lower", "seconds")[0] == pytest.approx([1, 3, 5])
    resumed = run["history"]["seconds"]
    resumed[4:] = [second + 60 for second in resumed[4:]]
    assert results.seconds_per_update(run) == pytest.approx(1 / 100 / 2)


def test_rolling_mean_and_limits():
    np.testing.assert_allclose(plots.rolling([1.0, 2.0, 3.0, 4.0], 2), [1, 1.5, 2.5, 3.5])
    np.testing.assert_allclose(plots.rolling([1.0, 2.0], 20), [1, 1.5])
    low, high = plots.settled_limits([np.array([-1e6, -1e5, *np.linspace(-20, -10, 8)])])
    assert -21 < low < -20
    assert -10 < high < -9
    assert plots.settled_limits([np.array([])]) is None
    assert plots.settled_limits([np.array([5.0])])[0] < 5


def test_a_directory_without_results(tmp_path):
    with pytest.raises(FileNotFoundError, match="run `uivi run toy --out"):
        report.write_page(tmp_path)
