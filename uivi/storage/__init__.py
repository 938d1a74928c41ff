"""Files: archives, the description of modules in them, checkpoints."""

from uivi.storage.archive import ArchiveError

__all__ = ["ArchiveError"]
