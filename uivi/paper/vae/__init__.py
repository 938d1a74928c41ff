"""Section 4.3: variational autoencoders."""
