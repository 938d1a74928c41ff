"""The command line: `uivi list`, `run`, `report`, `bench` and `data`."""
