"""The files that the dashboard serves: the page, its style and its scripts, without external resources."""

import html
import re
from importlib.resources import files
from typing import NamedTuple

from jobs.dashboard.guard import Session
from jobs.report.uplot import VERSION, load_library
from quota.settings import Settings

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_SHARED_SCRIPTS = ("charts.js", "tables.js")
_SCRIPTS = ("address.js", "rows.js", "plots.js", "lists.js", "dialogs.js", "trial.js", "live.js")


class Asset(NamedTuple):
    """A served file."""

    content: str
    media_type: str


class Assets:
    """The page and its files; the report's charts, tables and colours are shared."""

    def __init__(self, settings: Settings, session: Session) -> None:
        library = load_library()
        shared, own = files("jobs.report") / "assets", files("jobs.dashboard") / "assets"
        parts = [
            *((shared / name).read_text(encoding="utf-8") for name in _SHARED_SCRIPTS),
            *((own / name).read_text(encoding="utf-8") for name in _SCRIPTS),
        ]
        styles = [library.style, *((folder / "page.css").read_text(encoding="utf-8") for folder in (shared, own))]
        script = "\n".join(parts)
        self.files = {
            "uplot.js": Asset(library.script, "text/javascript"),
            "dashboard.js": Asset(f"(() => {{\n'use strict';\n{script}}})();\n", "text/javascript"),
            "dashboard.css": Asset("\n".join(styles), "text/css"),
            "icon.svg": Asset((own / "icon.svg").read_text(encoding="utf-8"), "image/svg+xml"),
            "licence.txt": Asset(library.licence, "text/plain"),
        }
        values = {
            "start": session.start,
            "window": str(settings.quota.window_num * settings.quota.window_size_seconds),
            "cluster": settings.kafka.bootstrap_servers,
            "decisions": settings.topics.decisions,
            "library_version": VERSION,
        }
        self.page = _fill((own / "page.html").read_text(encoding="utf-8"), values)
        self._login = (own / "login.html").read_text(encoding="utf-8")

    def login(self, error: str) -> str:
        """Return the login page, with an error message or an empty text."""
        return _fill(self._login, {"error": error})


def _fill(template: str, values: dict[str, str]) -> str:
    return _PLACE.sub(lambda place: html.escape(values[place[1]]), template)
