"""How good a fit is: bounds, likelihoods, metrics, mixing, importance weights, the verdict."""
