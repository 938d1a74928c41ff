"""A check without findings, from which tests derive others."""

import math

from uivi._types import Status
from uivi.evaluation import BoundValue, Check, ReverseMixing, Weights

GOOD = Check(
    status=Status.DONE,
    dim=2,
    lower=BoundValue("ELBO", "lower", -1.25, 0.01, 100),
    upper=BoundValue("ELBO", "upper", -1.2, 0.01, 100),
    mixing=ReverseMixing(math.nan, 0.9, 0.8, 0.02, 0.98),
    weights=Weights(0.3, 0.05, 0.8, 0.02, 1.0, 2048),
    nonfinite=3.0,
    skipped=2.0,
)
