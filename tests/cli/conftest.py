"""The data commands are tested with the small data sets and the server of `tests.datasets`."""

from tests.datasets.conftest import cache, install, local, quick, serve, server

__all__ = ["cache", "install", "local", "quick", "serve", "server"]
