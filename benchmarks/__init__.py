"""Scripts that measure the library, each run as a module from the root of the repository.

- `modelling`: `uivi.fit` with defaults against NUTS and NumPyro's guides, on the models in `models/`.
- `profile`: the GPU kernels of one update.
- `same_bound`: whether all forms of the reverse chain reach the same bound.
- `dead_units`: how many hidden units of the paper's regression stay alive.
- `published_toys`: other methods on a toy, by the measures that their papers publish.
- `vae_search`: the search that chose the settings of the VAE's default preset.

Times of single updates are measured by `uivi bench` (`uivi/bench`).
"""
