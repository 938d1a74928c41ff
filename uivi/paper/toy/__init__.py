"""Section 4.1: three densities on the plane (Table 1, Figure 2)."""
