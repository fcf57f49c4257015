"""Packs the jobs' Python environment into one archive, which Spark unpacks next to each executor.

`python -m conf.release.packing WHEEL ARCHIVE` packs the same files as `venv-pack`, but from this environment and
without the network: the project from its wheel, and the distributions that it needs, in the versions installed here.
Spark and the interpreter are not included: the archive contains a link to the interpreter of the nodes.
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

_SPARK_PACKAGES = {"pyspark", "py4j"}
"""Distributions that spark-submit and the executors provide."""

_EXTRA = "spark-submit"
"""The extra that contains what the jobs need besides the jars."""

_GZIP_LEVEL = 6
"""Level 9 takes three times as long and saves hardly any space."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def pack(wheel: Path, archive: Path, interpreter: Path) -> None:
    """Write the archive, a .tar.gz: Spark loses links and permissions when it unpacks other formats.

    `interpreter` is the path of Python on the nodes, of the same version as this one.
    """
    version = ".".join(map(str, sys.version_info[:2]))
    packages = Path(f"lib/python{version}/site-packages")
    try:
        with zipfile.ZipFile(wheel) as files:
            own = {name: files.read(name) for name in files.namelist()}
        (metadata,) = [name for name in own if name.endswith(".dist-info/METADATA")]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise BadInput(f"{wheel}: not a wheel: {error}") from None
    required = required_distributions(BytesParser().parsebytes(own[metadata]))
    with tarfile.open(archive, "w:gz", compresslevel=_GZIP_LEVEL) as tar:
        _add(tar, Path("pyvenv.cfg"), f"home = {interpreter.parent}\ninclude-system-site-packages = false\n".encode())
        for name in ("python", "python3", f"python{version}"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, str(interpreter)
            tar.addfile(link)
        for name, content in own.items():
            _add(tar, packages / name, content)
        for installed in required:
            for file, inside in _files(installed):
                tar.add(file, str(packages / inside), filter=_normalized)


def required_distributions(project: Message, extra: str | None = _EXTRA) -> list[Distribution]:
    """Return all distributions that the project needs with an extra, directly or indirectly, without Spark's.

    Indirect requirements may be missing, because a marker may exclude them here.
    """
    distributions: dict[str, Distribution] = {}
    queue = [(name, project["Name"]) for name in _requirements(project, extra)]
    while queue:
        name, by = queue.pop()
        if name in distributions or name in _SPARK_PACKAGES:
            continue
        try:
            distributions[name] = distribution(name)
        except PackageNotFoundError:
            if by == project["Name"]:
                raise BadInput(f"{name}, which {by} needs, is not installed here; run make setup") from None
            continue
        queue += [(requirement, name) for requirement in _requirements(distributions[name].metadata)]
    return [distributions[name] for name in sorted(distributions)]


def _requirements(metadata: object, extra: str | None = None) -> Iterator[str]:
    """Yield the normalized names of the requirements, without those of other extras."""
    required: Iterable[str] = getattr(metadata, "get_all")("Requires-Dist") or []  # noqa: B009 two types have it
    for requirement in required:
        match = _NAME.match(requirement)
        if match and re.search(rf";.*\bextra\b(?! == .{extra}.)", requirement) is None:
            yield re.sub(r"[-_.]+", "-", match[0]).lower()


def _files(installed: Distribution) -> Iterator[tuple[Path, str]]:
    """Yield the files of a distribution with their paths in site-packages.

    Scripts are skipped: they are outside site-packages, and contain the path of this environment's interpreter.
    """
    for file in installed.files or []:
        path = Path(str(installed.locate_file(file)))
        if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
            yield path, str(file)


def _add(tar: tarfile.TarFile, path: Path, content: bytes) -> None:
    member = tarfile.TarInfo(str(path))
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _normalized(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make a member readable for everyone and remove its owner, regardless of the umask and the user here."""
    member.mode |= 0o555 if member.mode & 0o100 else 0o444
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    """Write the archive of the command line."""
    parser = argparse.ArgumentParser(prog="python -m conf.release.packing", description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("archive", type=Path)
    parser.add_argument(
        "--python", type=Path, metavar="PATH", help="path on the nodes; by default the path on this machine"
    )
    given = parser.parse_args()
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    pack(given.wheel, given.archive, given.python or base)


if __name__ == "__main__":
    main()
