"""Files: archives, posteriors and checkpoints in them, fingerprints.

Start with `archive` for the format. `posteriors` and `checkpoints` are the two kinds of archives; `encoding`
and `decoding` turn modules into JSON and back by the table in `names`, `fields` checks types, and `container`
has the bytes. `descriptions` describes settings for fingerprints and results.
"""

from uivi.storage.archive import ArchiveError

__all__ = ["ArchiveError"]
