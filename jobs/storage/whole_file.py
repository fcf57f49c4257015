"""A file that is there as a whole, or not at all."""

from pathlib import Path


def write_whole(file: Path, text: str, *, new: bool = False) -> None:
    """Write a file beside its place and put it there only when it is whole: a disk may be full.

    Args:
        file: the place; what is there is replaced.
        text: what is written, in UTF-8.
        new: nothing may be there.

    Raises:
        OSError: it cannot be written, or there is one.
    """
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        if new:
            file.hardlink_to(part)
        else:
            part.replace(file)
    finally:
        part.unlink(missing_ok=True)
