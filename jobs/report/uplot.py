"""Loads uPlot, which draws the charts, from a package that contains the published version."""

import hashlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from quota.errors import MutationQuotaError

VERSION = "1.6.31"

_PACKAGE = "youplot"
"""The package that contains uPlot; none of its code runs."""

_SCRIPT = "youplot/vendor/uplot.iife.min.js", "2d27e8ad3d228164525ce213f9dc716f39b4e3aee0cc773fb3491c96cf4921a2"
_STYLE = "youplot/vendor/uplot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"
"""The path of a file, and its SHA-256 in uPlot's release, so that the package cannot change it."""


@dataclass(frozen=True, slots=True)
class Library:
    """The files of uPlot."""

    script: str
    style: str
    licence: str


def load_library() -> Library:
    """Read uPlot."""
    licence = (files("jobs.report") / "assets" / "uplot-licence.txt").read_text(encoding="utf-8")
    return Library(_text(*_SCRIPT), _text(*_STYLE), licence)


def _text(path: str, digest: str) -> str:
    try:
        content = Path(str(distribution(_PACKAGE).locate_file(path))).read_bytes()
    except (PackageNotFoundError, OSError):
        raise MutationQuotaError(f"{path}, which draws the charts, is not installed; run make setup") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise MutationQuotaError(f"{path} is not uPlot {VERSION} as it was published; reinstall {_PACKAGE}")
    return content.decode()
