"""The Python environment of the jobs as one archive, for Spark to unpack beside each executor.

`python -m jobs.spark.packing WHEEL ARCHIVE` packs what `venv-pack` would, from this environment and without the
network: the project out of its wheel, and the distributions that it needs, in the versions that are installed here.
Spark itself is left out, and so is the interpreter: the archive holds a link to where the nodes have it.
"""

import argparse
import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import BytesParser
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from quota.errors import BadInput

_SPARKS = {"pyspark", "py4j"}
"""What spark-submit and the executors bring along."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def pack(wheel: Path, archive: Path, interpreter: Path, level: int = 6) -> None:
    """Write the archive.

    Args:
        wheel: of the project.
        archive: the file to write, a .tar.gz: of the others, Spark's way to unpack them loses links and permissions.
        interpreter: where the nodes have Python, of the same version as this one.
        level: of gzip; 9 takes three times as long as 6 for hardly anything.

    Raises:
        BadInput: the wheel is none, or what it needs is not installed here.
    """
    version = ".".join(map(str, sys.version_info[:2]))
    packages = Path(f"lib/python{version}/site-packages")
    try:
        with zipfile.ZipFile(wheel) as files:
            own = {name: files.read(name) for name in files.namelist()}
        (metadata,) = [name for name in own if name.endswith(".dist-info/METADATA")]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise BadInput(f"{wheel}: no wheel: {error}") from None
    others = _needed(BytesParser().parsebytes(own[metadata]))
    with tarfile.open(archive, "w:gz", compresslevel=level) as tar:
        _add(tar, Path("pyvenv.cfg"), f"home = {interpreter.parent}\ninclude-system-site-packages = false\n".encode())
        for name in ("python", "python3", f"python{version}"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, str(interpreter)
            tar.addfile(link)
        for name, content in own.items():
            _add(tar, packages / name, content)
        for other in others:
            for file, inside in _files(other):
                tar.add(file, str(packages / inside), filter=_nobody)


def _needed(project: Message) -> list[Distribution]:
    """The distributions that one needs, of those too, without Spark's; what a marker leaves out is not installed."""
    found: dict[str, Distribution] = {}
    left = [(name, project["Name"]) for name in _required(project)]
    while left:
        name, by = left.pop()
        if name in found or name in _SPARKS:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if by == project["Name"]:
                raise BadInput(f"{name}, which {by} needs, is not installed here; run make setup") from None
            continue
        left += [(each, name) for each in _required(found[name].metadata)]
    return [found[name] for name in sorted(found)]


def _required(metadata: object) -> Iterator[str]:
    """The names of what is required whatever extras are wanted."""
    required: Iterable[str] = getattr(metadata, "get_all")("Requires-Dist") or []  # noqa: B009 two types have it
    for each in required:
        match = _NAME.match(each)
        if match and not re.search(r";.*\bextra\b", each):
            yield re.sub(r"[-_.]+", "-", match[0]).lower()


def _files(of: Distribution) -> Iterator[tuple[Path, str]]:
    """Files of a distribution with their place in site-packages; its scripts are not there, and would not run."""
    for file in of.files or []:
        path = Path(str(of.locate_file(file)))
        if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
            yield path, str(file)


def _add(tar: tarfile.TarFile, path: Path, content: bytes) -> None:
    member = tarfile.TarInfo(str(path))
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Of nobody in particular, and for all to read, whatever the umask of who packs."""
    member.mode |= 0o555 if member.mode & 0o100 else 0o444
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    """Pack what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m jobs.spark.packing", description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--python", type=Path, metavar="PATH", help="where the nodes have it; as here by default")
    given = parser.parse_args()
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    pack(given.wheel, given.archive, given.python or base)


if __name__ == "__main__":
    main()
