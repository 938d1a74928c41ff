"""Section 4.3: variational autoencoders (Table 2, Figure 5)."""
