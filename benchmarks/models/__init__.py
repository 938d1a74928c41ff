"""Twelve posteriors as NumPyro models, with reference draws from long NUTS runs.

    from benchmarks.models import MODELS
    draws = MODELS["schools_centred"].reference()  # {"mu": (4000,), "tau": (4000,), "theta": (4000, 8)}

`python -m benchmarks.models.references` makes the references again. All data is simulated from fixed seeds,
except the published data of the eight schools.
"""

from benchmarks.models.hierarchical import HIERARCHICAL
from benchmarks.models.mixtures import MIXTURES
from benchmarks.models.model import Model
from benchmarks.models.processes import PROCESSES
from benchmarks.models.regressions import REGRESSIONS
from benchmarks.models.schools import SCHOOLS
from benchmarks.models.time_series import TIME_SERIES

MODELS: dict[str, Model] = {
    model.name: model for model in (*SCHOOLS, *TIME_SERIES, *MIXTURES, *REGRESSIONS, *PROCESSES, *HIERARCHICAL)
}

__all__ = ["MODELS", "Model"]
