"""The bytes of an archive: a zip file without compression, a JSON text and NumPy arrays in it.

We write and read these bytes ourselves, since `zipfile` and `numpy.load` accept many files with the same
meaning, among them small files that expand to large ones. Here one header and its numbers make one file only.
"""

import json
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import jax.numpy as jnp
import numpy as np

MOST_BYTES = 2**31 - 1
"""Size of the largest file."""
MOST_HEADER = 2**26
"""Size of the largest header."""
MOST_VALUES = 4_000_000
"""Number of values in the largest header. It bounds the memory of the parsed header."""
MOST_DEPTH = 100
"""Deepest nesting of a header."""
MOST_ARRAYS = 10_000
"""Number of arrays in the largest file."""

DTYPES = {
    "bool": "|b1",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "|u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "bfloat16": "<u2",  # NumPy's files have no name for it, so its bits are stored
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
}
"""The dtypes that a file may hold, and how NumPy writes them."""

HEADER = "header.json"
_LOCAL = struct.Struct("<4s5H3I2H")


class Spec(NamedTuple):
    """Dtype and shape of one array."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Size of the numbers."""
        return math.prod(self.shape) * np.dtype(DTYPES[self.dtype]).itemsize

    @property
    def prefix(self) -> bytes:
        """The bytes before the numbers in an npy file, padded to a multiple of 64."""
        shape = f"({self.shape[0]},)" if len(self.shape) == 1 else f"({', '.join(map(str, self.shape))})"
        text = f"{{'descr': '{DTYPES[self.dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
        text += " " * (-(10 + len(text) + 1) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def to_text(header: Mapping[str, Any]) -> bytes:
    """Returns the one JSON text of a header."""
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode()


def from_text(text: bytes) -> Any:
    """Parses a JSON text, after checking its size."""
    check_text(text)
    return json.loads(text, parse_int=_integer)


def check_text(text: bytes) -> None:
    """Raises if a JSON text is too long, too deep or has too many values: before it is parsed."""
    if len(text) > MOST_HEADER:
        raise ValueError(f"expected a header of at most {MOST_HEADER:,} bytes, got {len(text):,}")
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 4 * MOST_VALUES:  # a value has at most two strings: its key and itself
        raise ValueError(f"expected a header of at most {MOST_VALUES:,} values, got more")
    outside = b"".join(bare.split(b'"')[::2])
    number = sum(outside.count(mark) for mark in (b",", b"[", b"{"))
    if number > MOST_VALUES:
        raise ValueError(f"expected a header of at most {MOST_VALUES:,} values, got {number:,}")
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", outside):
        depth += 1 if bracket in b"[{" else -1
        if depth > MOST_DEPTH:
            raise ValueError(f"expected a header nested at most {MOST_DEPTH} deep, got a deeper one")


def spec_of(array: np.ndarray) -> Spec:
    """Returns dtype and shape of an array that a file may hold."""
    if array.dtype.name not in DTYPES:
        raise ValueError(f"expected an array of {', '.join(DTYPES)}, got {array.dtype.name}: convert it first")
    return Spec(array.dtype.name, array.shape)


def specs_from_json(value: Any) -> list[Spec]:
    """Returns dtypes and shapes from a header, checked."""
    if not isinstance(value, list) or len(value) > MOST_ARRAYS:
        raise ValueError(f"expected a list of at most {MOST_ARRAYS:,} arrays")
    specs = []
    for item in value:
        if not (isinstance(item, list) and len(item) == 2 and isinstance(item[1], list) and len(item[1]) <= 32):
            raise ValueError(f"expected [dtype, shape] of an array, got {str(item)[:80]}")
        dtype, shape = item
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise ValueError(f"expected an array of {', '.join(DTYPES)}, got {str(dtype)[:80]!r}")
        if not all(type(size) is int and 0 <= size <= MOST_BYTES for size in shape):
            raise ValueError(f"expected a shape of whole numbers, got {str(shape)[:80]}")
        specs.append(Spec(dtype, tuple(shape)))
    return specs


def to_bytes(text: bytes, arrays: Sequence[np.ndarray]) -> bytes:
    """Returns the bytes of a file with this header, which must list the arrays."""
    if len(arrays) > MOST_ARRAYS:
        raise ValueError(f"expected at most {MOST_ARRAYS:,} arrays in a file, got {len(arrays):,}")
    size = _size(text, [spec_of(array) for array in arrays])
    if size > MOST_BYTES:
        raise ValueError(f"expected a file of at most {MOST_BYTES:,} bytes, got {size:,}")
    parts, directory = [], _Directory()
    for name, content in _members(text, arrays):
        parts += [directory.add(name, content), content]
    return b"".join([*parts, directory.end()])


class Reader:
    """Reads a file member by member, and nothing that its header did not announce."""

    def __init__(self, file: BinaryIO, size: int):
        """Checks the size of the file and reads nothing."""
        if size > MOST_BYTES:
            raise ValueError(f"expected a file of at most {MOST_BYTES:,} bytes, got {size:,}")
        self._file, self._size, self._directory = file, size, _Directory()
        self._text = b""

    def first_name(self) -> str:
        """Returns the name of the first member."""
        length = self._first()[-2]
        return self._peek(_LOCAL.size + length)[_LOCAL.size :].decode("ascii", "replace")

    def header_text(self) -> bytes:
        """Reads the header, which comes first."""
        length = self._first()[-3]
        if self.first_name() != HEADER or length > min(MOST_HEADER, self._size):
            raise ValueError(f"expected {HEADER} of at most {MOST_HEADER:,} bytes at its beginning")
        self._text = self._member(HEADER, length)
        return self._text

    def arrays(self, specs: Sequence[Spec]) -> list[np.ndarray]:
        """Reads the arrays and the end of the file."""
        size = _size(self._text, specs)
        if size != self._size:
            raise ValueError(f"its header needs a file of {size:,} bytes, got {self._size:,}")
        arrays = [self._array(number, spec) for number, spec in enumerate(specs)]
        if self._file.read() != self._directory.end():
            raise ValueError("its directory does not match its members")
        return arrays

    def _array(self, number: int, spec: Spec) -> np.ndarray:
        content = self._member(_array_name(number), len(spec.prefix) + spec.num_bytes)
        if not content.startswith(spec.prefix):
            raise ValueError(f"array {number} is not {spec.dtype}{list(spec.shape)}, as its header says")
        flat = np.frombuffer(content, DTYPES[spec.dtype], offset=len(spec.prefix))
        return (flat.view(jnp.bfloat16) if spec.dtype == "bfloat16" else flat).reshape(spec.shape)

    def _member(self, name: str, length: int) -> bytes:
        found = self._file.read(_LOCAL.size + len(name))
        content = self._file.read(length)
        if len(content) != length or self._directory.add(name, content) != found:
            raise ValueError(f"{name} is not there, or its checksum is wrong")
        return content

    def _first(self) -> tuple:
        if self._size < _LOCAL.size:
            raise ValueError(f"it has {self._size:,} bytes only")
        return _LOCAL.unpack(self._peek(_LOCAL.size))

    def _peek(self, length: int) -> bytes:
        content = self._file.read(length)
        self._file.seek(0)
        return content


class _Directory:
    """The bytes of a zip file around its members: a header before each one, a directory at the end."""

    def __init__(self):
        self._entries, self._offset, self._number = [], 0, 0

    def add(self, name: str, content: bytes) -> bytes:
        """Returns the header before a member."""
        length, crc = len(content), zlib.crc32(content)
        # Version 2.0, no flags, not compressed, 1 January 1980 (date 33): files depend on their contents only.
        common = struct.pack("<5H3I2H", 20, 0, 0, 0, 33, crc, length, length, len(name), 0)
        rest = struct.pack("<3H2I", 0, 0, 0, 0o100644 << 16, self._offset)
        self._entries.append(b"PK\x01\x02" + struct.pack("<H", 3 << 8 | 20) + common + rest + name.encode())
        self._offset += _LOCAL.size + len(name) + length
        self._number += 1
        return b"PK\x03\x04" + common + name.encode()

    def end(self) -> bytes:
        """Returns the bytes after the last member."""
        entries = b"".join(self._entries)
        counts = struct.pack("<4H2IH", 0, 0, self._number, self._number, len(entries), self._offset, 0)
        return entries + b"PK\x05\x06" + counts


def _members(text: bytes, arrays: Sequence[np.ndarray]) -> Iterator[tuple[str, bytes]]:
    yield HEADER, text
    for number, array in enumerate(arrays):
        spec = spec_of(array)
        bits = array.view(np.uint16) if spec.dtype == "bfloat16" else array
        yield _array_name(number), spec.prefix + bits.astype(DTYPES[spec.dtype], copy=False).tobytes()


def _size(text: bytes, specs: Sequence[Spec]) -> int:
    """Returns the size of the file with this header and these arrays."""
    sizes = [(HEADER, len(text))]
    sizes += [(_array_name(i), len(spec.prefix) + spec.num_bytes) for i, spec in enumerate(specs)]
    # A name comes twice: before its member and in the directory, whose entries are 16 bytes longer.
    return 22 + sum(2 * (_LOCAL.size + len(name)) + 16 + length for name, length in sizes)


def _array_name(number: int) -> str:
    return f"array_{number}.npy"


def _integer(digits: str) -> int:
    """Parses a whole number of at most 64 bits."""
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise ValueError("expected whole numbers of at most 64 bits")
    return int(digits)
