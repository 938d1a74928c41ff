"""Section 4.2: Bayesian multinomial logistic regression (Figures 3 and 4)."""
