"""Opens log files, which may be compressed."""

import lzma
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_XZ = b"\xfd7zXZ"
_MAGIC_BYTES = 6


def is_compressed(file: Path) -> bool:
    """Return whether a file is compressed."""
    return _compression(file) is not None


def open_log(file: Path) -> BinaryIO:
    """Open a file, which may be compressed with gzip, bzip2, xz, zstd or lz4, as its content says."""
    compression = _compression(file)
    if compression is None:
        return file.open("rb")
    if compression == "xz":
        return cast("BinaryIO", lzma.open(file))
    return cast("BinaryIO", pa.input_stream(str(file), compression=compression))


def _compression(file: Path) -> str | None:
    with file.open("rb") as raw:
        head = raw.read(_MAGIC_BYTES)
    if head.startswith(_XZ):
        return "xz"
    return next((name for magic, name in _COMPRESSIONS.items() if head.startswith(magic)), None)
