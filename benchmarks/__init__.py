"""Scripts that measure the library, each run as a module from the root of the repository.

- `modelling`: `uivi.fit` with defaults against NUTS and NumPyro's guides, on the models in `models/`.
- `coupled`: coupled chains against the default's i-SIR at equal time.
- `profile`: the GPU kernels of one update.
- `same_bound`: whether all forms of the reverse chain reach the same bound.
- `dead_units`: how many hidden units of the paper's regression stay alive.
- `published_toys`: other methods on a toy, by the measures that their papers publish.
- `waveform_reference`: the reference moments of `uivi run methods-waveform`.
- `vae_search`: the search that chose the settings of the VAE's default preset.

`rows` has what several of them share. `uivi bench` measures times of single updates (`uivi/bench`).
"""
