"""Kill -9 at random moments, and the same bits as without."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from uivi.storage.checkpoints import Checkpoints

EARLY = 5
"""One in so many lives ends at any moment from its birth: in an import, a compilation, a checkpoint read."""
PATIENCE = 120.0
"""Seconds to wait for a start of the subprocess, compilation included, on a slow machine."""


def start(directory, result, num_steps, cache=None):
    """Begin or resume the fit; `cache` keeps compiled programs between the lives of one run."""
    environment = dict(os.environ)
    if cache is not None:
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    command = [sys.executable, "-m", "tests.training.kill_me", *map(str, (directory, result, num_steps))]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)


def kill_at_random(process, directory, rng):
    """Wait until the process has saved a new checkpoint, and a random while; then kill it."""
    checkpoints = Checkpoints(directory, "")
    before, deadline = checkpoints.newest(), time.monotonic() + PATIENCE
    while checkpoints.newest() == before:
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline, "no checkpoint came"
        time.sleep(0.005)
    kill_after(process, rng.uniform(0.0, 0.4))


def kill_after(process, seconds):
    time.sleep(seconds)
    assert process.poll() is None, "the fit was over too soon: give kill_me more steps"
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def finish(process):
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors.decode()


@pytest.fixture
def processes():
    """Those in it are ended with the test."""
    started = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("num_kills", "num_steps"), [(2, 20_000), pytest.param(50, 200_000, marks=pytest.mark.slow)]
)
def test_killed_and_resumed_fits_end_in_the_same_bits(num_kills, num_steps, tmp_path, processes):
    rng = np.random.default_rng(2019)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    result = tmp_path / "broken.npz"
    processes.append(start(whole, tmp_path / "whole.npz", num_steps))
    reached = []
    for life in range(num_kills):
        processes.append(start(broken, result, num_steps, tmp_path / "cache"))
        if life % EARLY == EARLY - 1:
            kill_after(processes[-1], rng.uniform(0.0, 3.0))
        else:
            kill_at_random(processes[-1], broken, rng)
            reached.append(Checkpoints(broken, "").newest().name)
    assert reached == sorted(set(reached)), "every life must get further than the one before"
    processes.append(start(broken, result, num_steps, tmp_path / "cache"))
    finish(processes[-1])
    finish(processes[0])
    assert not list(broken.glob(".step-*.tmp")), "half a checkpoint was left"
    expected, found = np.load(tmp_path / "whole.npz"), np.load(result)
    assert found["status"] == expected["status"] == "DONE"
    for name in ("draws", "history"):
        assert found[name].dtype == expected[name].dtype
        assert found[name].tobytes() == expected[name].tobytes()
    # Control: the draws do depend on where the fit stands.
    assert not np.array_equal(expected["history"][:100], expected["history"][100:])
