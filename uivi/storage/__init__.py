"""Files: archives, the description of modules in them, checkpoints."""
