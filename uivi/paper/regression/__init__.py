"""Section 4.2: Bayesian multinomial logistic regression."""
