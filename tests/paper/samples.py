"""Results of every kind, as the runner writes them, with made-up numbers."""

import base64
import io
import json

import numpy as np
from rich.console import Console

from uivi.paper.report.sections import SECTIONS

ROWS = 6


def bound(mean, stderr=0.01):
    return {"mean": mean, "stderr": stderr}


SHARED = """{
    "config": {"effort": "full", "num_steps": 600, "task": {}},
    "fingerprint": "f00d", "published": null, "exhibit": {}, "versions": {"uivi": "0.1.0"},
    "device": "some device", "precision": "highest", "seconds": 60.0, "lanes": 2, "seconds_per_fit": 30.0
}"""


def result(kind, experiment, preset, method, seeds, columns=(), **changes):
    """Returns what all kinds share; the monitors recorded every second row."""
    made = json.loads(SHARED)
    made["config"] |= {"kind": kind, "experiment": experiment, "preset": preset, "method": method}
    made["config"] |= {"seeds": list(range(len(seeds)))}
    made["config"] |= {key: changes.pop(key) for key in ("effort", "num_steps", "task") if key in changes}
    curve = [None if i % 2 else -1e6 / (i + 1) ** 4 for i in range(ROWS)]
    history = {"step": [100 * (i + 1) for i in range(ROWS)], "seconds": [50.0 + i for i in range(ROWS)]}
    made |= {"seeds": seeds, "status": ["DONE"] * len(seeds), "history": history}
    history |= {column: list(curve) for column in columns}
    return made | changes


def toy(preset="default", method="uivi", **changes):
    mixing = {"recovered": 0.97, "moved": None, "acceptance": None}
    diagnosis = {"lower": bound(-0.02), "upper": bound(-0.01), "mixing": mixing, "weights": {"pareto_k": 0.4}}
    seed = {"kl": {"kl": 0.00321}, "check": diagnosis, "paper_elbo": bound(0.03)}
    worse = seed | {"kl": {"kl": 0.00721}, "check": diagnosis | {"mixing": None}}
    fixed = {
        "title": "Banana",
        "published": {"value": 0.01, "source": "our own goal"},
        "exhibit": {"draws": [[0.0, 0.1]] * 5},
    }
    return result("toy", "banana", preset, method, [seed, worse], ["elbo_lower"], **fixed | changes)


def logreg(preset="paper", method="uivi", name="logreg-mnist", kind="logreg", title="MNIST", **changes):
    names = ("elbo_lower", "elbo_paper", "ais_lower", "ais_upper")
    seed = {name: bound(-23590 - i - i / 100) for i, name in enumerate(names, 1)}
    seed |= {"test_joint": -0.2951, "test_pointwise": -0.2658, "test_pointwise_stderr": 0.0097}
    seed |= {"test_accuracy": 0.9266, "test_calibration": 0.0098}
    columns = ("elbo_lower", "elbo_paper", "test_joint", "test_pointwise")
    return result(kind, name, preset, method, [seed], columns, title=title, **changes)


def iterations(method="hmc-5", **changes):
    return logreg(method=method, name="logreg-iterations", kind="iterations", **changes)


def autoencoder(
    preset="paper", method="uivi", paper=-95.0, name="vae-mnist", title="Binarized MNIST", **changes
):
    names = ("paper", "lower", "student", "elbo_lower", "elbo_upper")
    levels = (paper, -98.11, -97.22, -102.33, -101.44)
    every = {name: bound(mean) for name, mean in zip(names, levels, strict=True)}
    drift = [
        {"draws": s, "mixing": m, "paper": -100.0 + s / m, "lower": -101.0}
        for s in (10, 100)
        for m in ((1_000, 10_000) if method != "explicit" else (10_000,))
    ]
    sandwich = {"ais_lower": {"mean": -96.66}, "ais_upper": {"mean": -96.55}}
    truth = {"images": 7, "real": every | {"ais_lower": {"mean": -96.77}}, "simulated": sandwich | every}
    images = base64.b64encode(np.zeros((10, 784), np.uint8).tobytes()).decode()
    seed = every | {"drift": drift, "truth": truth}
    fixed = {
        "published": {"value": -94.09, "source": "Table 2"},
        "exhibit": {"images": images, "reconstructions": images},
        "task": {"dataset": "some-images", "description": "Some images", "budget": {"drift_images": 7}},
    }
    return result("vae", name, preset, method, [seed], ["heldout_student"], title=title, **fixed | changes)


def methods(preset="seconds", method="uivi", name="methods-banana", title="Banana, by all", **changes):
    check = {"lower": bound(-0.06), "upper": bound(-0.05), "weights": {"pareto_k": 0.4}, "verdict": 0}
    scores = {"kl": 0.0555, "mass": 1.0}
    seed = {"check": check, "failed": False, "kl_upper": bound(0.06), "kl_lower": bound(0.05), "scores": scores}
    worse = seed | {"failed": True, "scores": {"kl": 0.0777}, "check": check | {"verdict": 2}}
    return result("methods", name, preset, method, [seed, worse], ["elbo_lower"], title=title, **changes)


def prior(preset="bound", method="dsivi-prior", level=-90.0, name="vae-prior-mnist", **changes):
    seeds = [
        {"log_p": bound(level - shift), "elbo_lower": bound(-94.44), "elbo_upper": bound(-94.33)}
        | {"width": 0.11, "unsure": 0.0}
        for shift in (0.0, 0.5)
    ]
    images = base64.b64encode(np.zeros((10, 784), np.uint8).tobytes()).decode()
    fixed = {"title": "Binarized MNIST", "exhibit": {"generated": images}}
    return result("vae-prior", name, preset, method, seeds, **fixed | changes)


def samplers(method="uivi", name="samplers-eight-gaussians", title="8 Gaussians, by all", **changes):
    weights = {"pareto_k": 0.4, "ess": 0.9}
    check = {"lower": bound(-0.06), "upper": bound(-0.05), "weights": weights}
    scores = {"distance": 0.0456, "distance_exact": 0.0357, "distance_ratio": 1.277}
    scores |= {"modes": 8.0, "modes_found": 8.0, "weight_error": 0.0123, "weight_factor": 1.1}
    seed = {"check": check, "own": check | {"verdict": 1, "advice": ["raise num_steps"]}, "failed": False}
    seed |= {"kl_upper": bound(0.06), "kl_lower": bound(0.05), "scores": scores, "seconds": 30.0}
    seed |= {"phases": {"searching for a start": 3.21, "updates": 20.0}}
    worse = seed | {"kl_upper": bound(0.0777), "scores": scores | {"modes_found": 7.0, "weight_factor": None}}
    fixed = {"title": title, "exhibit": {"draws": [[0.0, 0.1]] * 5}}
    return result("samplers", name, "seconds", method, [seed, worse], **fixed | changes)


def chains(**changes):
    found = {"r_hat": 1.234, "ess": 567.0, "number": 4, "warmup": 800, "kept": 900, "thinning": 1}
    seed = {"chains": found | {"divergences": 0}, "failed": False, "scores": {"modes": 8.0, "modes_found": 2.0}}
    made = samplers("nuts", num_steps=0) | {"seeds": [seed], "status": ["DONE"], "history": {}, "exhibit": {}}
    made["config"]["seeds"] = [0]
    return made | changes


def networks(method="uivi", name="networks-yacht", title="Yacht, by all", **changes):
    check = {"lower": bound(-60.0), "upper": bound(-50.0), "verdict": 1}
    scores = ({"rmse": rmse, "rmse_in_sds": rmse / 10, "nll": rmse + 0.7} for rmse in (0.7, 0.9))
    seeds = [{"own": check, "failed": False, "seconds": 30.0, "scores": each} for each in scores]
    fixed = {"title": title, "history": {}}
    return result("networks", name, "updates", method, seeds, **fixed | changes)


MAKERS = {
    "toy": toy,
    "logreg": logreg,
    "iterations": iterations,
    "vae": autoencoder,
    "vae-prior": prior,
    "methods": methods,
    "samplers": samplers,
    "networks": networks,
}
FIGURES = {"toy": 2, "logreg": 1, "iterations": 2, "vae": 3, "vae-prior": 1, "methods": 1, "samplers": 2}
FIGURES["networks"] = 0
"""Number of figures that one result of each kind has on the page."""


def count_images(page):
    return page.count("src='data:image/png;base64,")


TITLES = {kind: section.title for kind, section in SECTIONS.items()}


def printed(renderable):
    console = Console(file=io.StringIO(), width=300)
    console.print(renderable)
    return console.file.getvalue()
