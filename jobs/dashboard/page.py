"""The files of the page: served by the dashboard, or saved by a report as one file."""

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jobs.dashboard.decisions import LAST_HOUR
from jobs.dashboard.guard import Session
from quota.errors import MutationQuotaError
from quota.records import codec
from quota.settings import Settings

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_OTHER = re.compile(r"<!-- (live|saved) -->\n(.*?)<!-- end -->\n", re.DOTALL)
"""A part of the page that only one of its two forms has."""

_SCRIPTS = ("base.js", "address.js", "rows.js", "plots.js", "lists.js", "dialogs.js", "page.js")
_LIVE_SCRIPTS = (*_SCRIPTS, "trial.js", "live.js")
_SAVED_SCRIPTS = (*_SCRIPTS, "saved.js")

UPLOT_VERSION = "1.6.31"
_PACKAGE = "youplot"
"""The package that contains uPlot, which draws the charts; none of its code runs."""

_UPLOT = {
    "youplot/vendor/uplot.iife.min.js": "2d27e8ad3d228164525ce213f9dc716f39b4e3aee0cc773fb3491c96cf4921a2",
    "youplot/vendor/uplot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""The files of uPlot, and their SHA-256 in its release, so that the package cannot change them."""


class Asset(NamedTuple):
    """A served file."""

    content: str
    media_type: str


class Assets:
    """The files of the live page."""

    def __init__(self, settings: Settings, session: Session) -> None:
        library, library_style = load_uplot()
        self.files = {
            "uplot.js": Asset(library, "text/javascript"),
            "dashboard.js": Asset(_script(_LIVE_SCRIPTS), "text/javascript"),
            "dashboard.css": Asset(_style(library_style), "text/css"),
            "icon.svg": Asset(_read("icon.svg"), "image/svg+xml"),
            "licence.txt": Asset(_read("uplot-licence.txt"), "text/plain"),
        }
        values = {
            "start": session.start,
            "window": str(settings.quota.window_num * settings.quota.window_size_seconds),
            "cluster": settings.kafka.bootstrap_servers,
            "decisions": settings.topics.decisions,
            "width": str(LAST_HOUR.width),
            "interval": "5 seconds",
            "version": UPLOT_VERSION,
        }
        self.page = _fill(_form("live"), {name: html.escape(value) for name, value in values.items()})
        self._login = _read("login.html")

    def login(self, error: str) -> str:
        """Return the login page, with an error message or an empty text."""
        return _fill(self._login, {"error": html.escape(error)})


@dataclass(frozen=True, slots=True)
class Heading:
    """What a saved page is of: a page that is passed on must not be taken for another."""

    title: str
    period: str
    origin: str
    interval: str


def save_page(heading: Heading, width: int, data: Mapping[str, Any]) -> str:
    """Return the page with its data in it, as one file of HTML; `width` is that of an interval [ms].

    Names cannot inject markup or scripts: data is JSON without characters that are special in HTML, scripts insert it
    only as text, and the page's Content-Security-Policy allows neither other scripts nor external resources.
    """
    library, library_style = load_uplot()
    script, style = _script(_SAVED_SCRIPTS), _style(library_style)
    hashes = " ".join(map(_hash, (library, script)))
    policy = f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    texts = {
        "title": heading.title,
        "period": heading.period,
        "origin": heading.origin,
        "interval": heading.interval,
        "start": str(data["from"]),
        "width": str(width),
        "version": UPLOT_VERSION,
        "licence": _read("uplot-licence.txt"),
    }
    markup = {"policy": policy, "style": style, "library": library, "script": script, "data": encode_for_html(data)}
    return _fill(_form("saved"), {name: html.escape(text) for name, text in texts.items()} | markup)


def encode_for_html(value: object) -> str:
    """Encode a value as JSON without the characters that could end its HTML element or start another element."""
    text = codec.encode(value).decode()
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def load_uplot() -> tuple[str, str]:
    """Read uPlot: its script and its style."""
    script, style = (_published(path, digest) for path, digest in _UPLOT.items())
    return script, style


def _published(path: str, digest: str) -> str:
    try:
        content = Path(str(distribution(_PACKAGE).locate_file(path))).read_bytes()
    except (PackageNotFoundError, OSError):
        raise MutationQuotaError(f"{path}, which draws the charts, is not installed; run make setup") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise MutationQuotaError(f"{path} is not uPlot {UPLOT_VERSION} as it was published; reinstall {_PACKAGE}")
    return content.decode()


def _form(kind: str) -> str:
    """Return the template of the live or the saved page."""
    return _OTHER.sub(lambda part: part[2] if part[1] == kind else "", _read("page.html"))


def _fill(template: str, parts: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: parts[place[1]], template)


def _script(names: tuple[str, ...]) -> str:
    own = "\n".join(map(_read, names))
    return f"(() => {{\n'use strict';\n{own}}})();\n"


def _style(library_style: str) -> str:
    return f"{library_style}\n{_read('page.css')}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (files("jobs.dashboard") / "assets" / name).read_text(encoding="utf-8")
