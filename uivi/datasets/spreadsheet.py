"""Reads the numbers of an old Excel file (xls): Concrete comes as one, and NumPy cannot read it.

Such a file holds a small file system of sectors, and in it a stream of records ([MS-CFB] and [MS-XLS]).
"""

import struct
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
HEADER, FIRST_PLACES = 512, 109
"""Size of the header, and number of the table's sectors that it lists: enough for seven megabytes."""
ENTRY = 128
"""Size of an entry of the directory."""
LARGEST_SECTOR = 0xFFFFFFF9
"""Numbers above this are no sectors: they end a chain or mark a free place."""
SMALL_STREAM = 4_096
"""Size below which a stream lies elsewhere, in smaller sectors. A table of numbers is larger."""
BEGIN, NUMBER, RK, MULTIPLE_RK, FORMULA = 0x809, 0x203, 0x27E, 0xBD, 0x06


def numbers(raw: bytes) -> Float[np.ndarray, "N F"]:
    """Returns the numbers of the first sheet, without the rows that have none.

    Raises:
        ValueError: if it is another kind of file, or the sheet is not a full table of numbers below its titles.
    """
    try:
        cells = dict(_cells(_workbook(raw)))
    except (struct.error, IndexError) as error:
        raise ValueError("expected a whole xls file, got one that ends early or is damaged") from error
    if not cells:
        raise ValueError("expected a sheet with numbers, got one without any")
    rows, columns = (sorted(set(places)) for places in zip(*cells, strict=True))
    if len(cells) != len(rows) * len(columns):
        raise ValueError(
            f"expected a number in each of {len(rows)} × {len(columns)} cells, got {len(cells)} numbers"
        )
    return np.array([[cells[row, column] for column in columns] for row in rows])


def _workbook(raw: bytes) -> bytes:
    """Returns the stream of records."""
    if not raw.startswith(MAGIC):
        raise ValueError(f"expected an xls file, got one that starts with {raw[:8].hex(' ')!r}")
    (shift,) = struct.unpack_from("<H", raw, 30)
    (first_of_directory,) = struct.unpack_from("<I", raw, 48)
    if shift not in (9, 12):
        raise ValueError(f"expected sectors of 512 or 4,096 bytes, got 2^{shift}")
    size = 1 << shift

    def sector(number: int) -> bytes:
        start = max(HEADER, size) + number * size
        if start + size > len(raw):
            raise IndexError(number)
        return raw[start : start + size]

    listed = struct.unpack_from(f"<{FIRST_PLACES}I", raw, 76)
    table: list[int] = []
    for number in listed:
        if number <= LARGEST_SECTOR:
            table += struct.unpack(f"<{size // 4}I", sector(number))

    def chain(number: int) -> bytes:
        parts: list[bytes] = []
        while number <= LARGEST_SECTOR:
            if len(parts) > len(table):
                raise IndexError(number)  # a chain that runs in a circle
            parts.append(sector(number))
            number = table[number]
        return b"".join(parts)

    directory = chain(first_of_directory)
    for start in range(0, len(directory), ENTRY):
        entry = directory[start : start + ENTRY]
        (length,) = struct.unpack_from("<H", entry, 64)
        if entry[: max(0, length - 2)].decode("utf-16-le", "replace") in ("Workbook", "Book"):
            first, num_bytes = struct.unpack_from("<II", entry, 116)
            if num_bytes < SMALL_STREAM:
                break
            return chain(first)[:num_bytes]
    raise ValueError("expected an xls file with a workbook, got one without")


def _cells(stream: bytes) -> Iterator[tuple[tuple[int, int], float]]:
    """Yields row and column, and the value, of each number on the first sheet."""
    place, sheets = 0, -1  # what comes before the first sheet begins in the same way
    while place + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, place)
        body = stream[place + 4 : place + 4 + length]
        place += 4 + length
        sheets += kind == BEGIN
        if sheets > 1:
            return
        if sheets < 1 or kind not in (NUMBER, RK, MULTIPLE_RK, FORMULA):
            continue
        row, column = struct.unpack_from("<HH", body)
        if kind == RK:
            yield (row, column), _short(*struct.unpack_from("<I", body, 6))
        elif kind == MULTIPLE_RK:
            for i in range((length - 6) // 6):
                yield (row, column + i), _short(*struct.unpack_from("<I", body, 6 + 6 * i))
        elif body[12:14] != b"\xff\xff" or kind == NUMBER:  # a formula may also have a text as its value
            yield (row, column), struct.unpack_from("<d", body, 6)[0]


def _short(bits: int) -> float:
    """Returns a number of 32 bits. Two of them say if it is whole or part of a float, and if in hundredths."""
    if bits & 2:
        value = float(struct.unpack("<i", struct.pack("<I", bits))[0] >> 2)
    else:
        value = struct.unpack("<d", struct.pack("<Q", (bits & 0xFFFFFFFC) << 32))[0]
    return value / 100 if bits & 1 else value
