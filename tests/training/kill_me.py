"""A fit to be killed, which saves a checkpoint after every chunk.

Run it as `python -m tests.training.kill_me DIRECTORY RESULT NUM_STEPS`.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import uivi
from tests.tiny import log_density
from uivi.storage.checkpoints import Checkpoints


def main() -> None:
    directory, result, num_steps = sys.argv[1:]
    Checkpoints.__init__.__kwdefaults__["seconds"] = 0.0
    conditional = uivi.families.LinearGaussian(jnp.eye(2), jnp.zeros(2), jnp.ones(2))
    sampler = uivi.ISIR(8, 1, uivi.reverse.Learned(width=16, depth=1))
    posterior = uivi.fit(
        log_density,
        2,
        key=jax.random.key(0),
        family=uivi.SemiImplicit(uivi.families.StandardNormal(2), conditional),
        estimator=uivi.UIVI(num_draws=16, sampler=sampler),
        num_steps=int(num_steps),
        checkpoint=directory,
        check=False,
        progress=False,
    )
    history = np.array(posterior.history["log_joint"])
    draws = posterior.sample(jax.random.key(1), 100)
    np.savez(result, draws=draws, history=history, status=posterior.status.name)


if __name__ == "__main__":
    main()
