"""The paper's update of the banana written without abstractions, as a yardstick for the library.

It uses bare arrays, backpropagation by hand, and one batched random call where the library maps over keys. The
update has S chains of 10 HMC moves with 5 leapfrogs, the paper's estimator, and RMSProp on a 3-50-50-2 network.
Many updates run in one compiled call. On a shared machine only the ratio within one process is meaningful.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi import presets
from uivi._types import Key
from uivi.estimators import UIVI
from uivi.families import Gaussian
from uivi.targets import Banana
from uivi.training.update import Method, initial_state, run_updates

BURNIN, DRAWS, LEAPFROGS = 5, 5, 5
LOG_2PI = float(jnp.log(2 * jnp.pi))


def forward(p: dict[str, Array], eps: Array):
    """Returns the mean of q(z|ε) for a batch, and both hidden layers for backpropagation."""
    a = jax.nn.relu(eps @ p["w1"].T + p["b1"])
    b = jax.nn.relu(a @ p["w2"].T + p["b2"])
    return b @ p["w3"].T + p["b3"], a, b


def reverse_density(p: dict[str, Array], z: Array, eps: Array):
    """Returns log q(z|ε) + log q(ε) and its gradient in ε."""
    mu, a, b = forward(p, eps)
    residual = (z - mu) / p["scale"]
    value = -0.5 * jnp.sum(residual**2, -1) - jnp.sum(jnp.log(p["scale"])) - LOG_2PI
    value = value - 0.5 * jnp.sum(eps**2, -1) - 1.5 * LOG_2PI
    back = (residual / p["scale"]) @ p["w3"]
    back = jnp.where(b > 0, back, 0.0) @ p["w2"]
    return value, jnp.where(a > 0, back, 0.0) @ p["w1"] - eps


def chain(p: dict[str, Array], key: Key, z: Array, eps: Array, step: Array):
    """Runs the paper's chain for all draws at once. Returns the kept ε′ and the adapted step size."""
    value, gradient = reverse_density(p, z, eps)

    def move(carry, xs):
        eps, value, gradient, step = carry
        key, is_burnin = xs
        momentum_key, accept_key = jax.random.split(key)
        momentum = jax.random.normal(momentum_key, eps.shape)

        def leapfrog(_, c):
            e, m, _, g = c
            m = m + 0.5 * step * g
            e = e + step * m
            v, g = reverse_density(p, z, e)
            return e, m + 0.5 * step * g, v, g

        new, end, new_value, new_gradient = jax.lax.fori_loop(
            0, LEAPFROGS, leapfrog, (eps, momentum, value, gradient)
        )
        gain = new_value - value + 0.5 * jnp.sum(momentum**2 - end**2, -1)
        accept = jax.random.uniform(accept_key, gain.shape) < jnp.exp(jnp.minimum(gain, 0.0))
        eps = jnp.where(accept[:, None], new, eps)
        gradient = jnp.where(accept[:, None], new_gradient, gradient)
        value = jnp.where(accept, new_value, value)
        # The authors' rule: towards an acceptance rate of 0.9, during burn-in only.
        adapted = step * (1 + 0.01 * (jnp.mean(accept.astype(jnp.float32)) - 0.9) / 0.9)
        return (eps, value, gradient, jnp.where(is_burnin, adapted, step)), eps

    total = BURNIN + DRAWS
    xs = (jax.random.split(key, total), jnp.arange(total) < BURNIN)
    (_, _, _, step), kept = jax.lax.scan(move, (eps, value, gradient, step), xs)
    return kept[BURNIN:], step


def flat_update(carry: tuple, number: Array, num_draws: int):
    """Makes one update."""
    p, squares, step, key = carry
    eps_key, noise_key, chain_key = jax.random.split(jax.random.fold_in(key, number), 3)
    eps = jax.random.normal(eps_key, (num_draws, 3))
    noise = jax.random.normal(noise_key, (num_draws, 2))
    mu, a, b = forward(p, eps)
    z = mu + p["scale"] * noise
    kept, step = chain(p, chain_key, z, eps, step)
    mean_mu = jnp.mean(forward(p, kept)[0], 0)
    score = -(z - mean_mu) / p["scale"] ** 2
    # The banana is a Gaussian with correlation 0.9 in (z1, z2 + z1² + 1); 0.19 is 1 - 0.9².
    x, y = z[:, 0], z[:, 1] + z[:, 0] ** 2 + 1
    dx, dy = (x - 0.9 * y) / 0.19, (y - 0.9 * x) / 0.19
    model = jnp.stack([-dx - 2 * dy * x, -dy], -1)
    g = (score - model) / num_draws
    gb = jnp.where(b > 0, g @ p["w3"], 0.0)
    ga = jnp.where(a > 0, gb @ p["w2"], 0.0)
    grads = {"w1": ga.T @ eps, "b1": ga.sum(0), "w2": gb.T @ a, "b2": gb.sum(0),
             "w3": g.T @ b, "b3": g.sum(0), "scale": (g * noise).sum(0)}  # fmt: skip
    weight = jnp.where(number == 0, 1.0, 0.1)
    decay = 0.9 ** (number // 3000)
    squares = jax.tree.map(lambda s, g: (1 - weight) * s + weight * g**2, squares, grads)
    rates = {name: 0.002 if name == "scale" else 0.01 for name in p}
    p = {n: p[n] - rates[n] * decay * grads[n] / (1 + jnp.sqrt(squares[n])) for n in p}
    p["scale"] = jnp.maximum(p["scale"], 1e-5)
    return p, squares, step, key


def flat_program(num_draws: int, key: Key) -> Callable[[int], Any]:
    """Returns a function that makes a number of updates without the library."""
    family = presets.paper_family(key, 2)
    assert isinstance(family.conditional, Gaussian)
    one, two, three = family.conditional.net.layers
    p = {"w1": one.weight, "b1": one.bias, "w2": two.weight, "b2": two.bias,
         "w3": three.weight, "b3": three.bias, "scale": family.conditional.scale()}  # fmt: skip
    carry = (p, jax.tree.map(jnp.zeros_like, p), jnp.asarray(0.2), key)
    body = lambda i, c: flat_update(c, i, num_draws)
    compiled = jax.jit(lambda c, n: jax.lax.fori_loop(0, n, body, c))
    return lambda n: jax.block_until_ready(compiled(carry, jnp.asarray(n)))


def library_program(num_draws: int, key: Key) -> Callable[[int], None]:
    """Returns a function that makes a number of updates with the library."""
    method = Method(UIVI(num_draws, presets.paper_uivi().sampler), presets.paper_optimizer(1))
    holder = [initial_state(key, method, presets.paper_family(key, 2), Banana())]

    def call(n: int) -> None:
        holder[0], _ = run_updates(method, holder[0], n)

    return call


def compare(num_draws: int, num_updates: int, repeats: int = 5) -> dict[str, Any]:
    """Returns the median milliseconds per update of both programs and their ratio.

    The timed calls alternate, so that a change in the load of the machine affects both.
    """
    key = jax.random.key(0)
    programs = {"flat": flat_program(num_draws, key), "library": library_program(num_draws, key)}
    for program in programs.values():
        program(2)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            began = time.perf_counter()
            program(num_updates)
            times[name].append((time.perf_counter() - began) / num_updates)
    flat, library = (1e3 * statistics.median(times[name]) for name in ("flat", "library"))
    return {"draws": num_draws, "flat_ms": flat, "library_ms": library, "ratio": library / flat}
