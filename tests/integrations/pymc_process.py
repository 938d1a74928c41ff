"""What a target of a PyMC model leaves behind in its process, as JSON: run by `test_pymc`."""

import json
import os
import sys
import warnings

import jax

from uivi.integrations.recognition import recognise

before = {"x64": jax.config.jax_enable_x64, "flags": os.environ.get("XLA_FLAGS"), "pymc": "pymc" in sys.modules}
warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)

import pymc as pm  # noqa: E402

with pm.Model() as model:
    pm.Normal("y", pm.HalfNormal("scale"), 1.0, observed=[0.5, 1.5])

warnings.simplefilter("error")
target = recognise(model, key=jax.random.key(0))
z = jax.numpy.array([0.3])
value, draw = target.log_density(z), target.constrain(z)["scale"]
after = {"x64": jax.config.jax_enable_x64, "flags": os.environ.get("XLA_FLAGS")}
print(
    json.dumps(
        {
            "before": before,
            "after": after,
            "devices": jax.device_count(),
            "dtypes": [str(x.dtype) for x in (draw, value)],
            "value": float(value),
        }
    )
)
