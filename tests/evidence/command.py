"""What the programs of the evidence have in common: options, lines of progress, JSON on standard output, and a page."""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from quota.errors import MutationQuotaError
from tests.evidence.report import as_json, write
from tests.support.checkout import CHECKOUT

Notify = Callable[[str], None]
"""Takes a line of progress."""


class Sections(NamedTuple):
    """The sections of a program, which it can run alone."""

    names: Collection[str]
    merge: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] | None = None
    """Replaces those of an earlier run by those of a later one, in all results; None if a page is of a single run."""


ONE_SECTION = Sections(())


def run(
    name: str,
    play: Callable[[argparse.Namespace, Path, Notify], dict[str, Any]],
    template: Path,
    sections: Sections = ONE_SECTION,
    seed: int | None = None,
) -> None:
    """Run a program; results with a value of `wrong` make no page, and the exit code 1.

    Args:
        name: Its name, and that of its page.
        play: Returns the results, given the options and a folder that exists as long as it runs.
        template: The template of the page.
        sections: The choices of the option `only`.
        seed: The default of the option `seed`; None for a program without random inputs.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no process may outlive this one
    options = _options(name, sections, seed)
    this_run, began = _this_run(), time.monotonic()
    try:
        with TemporaryDirectory(prefix="mutation-quota-") as folder:
            results = play(options, Path(folder), progress())
    except (MutationQuotaError, AssertionError) as error:
        sys.exit(f"{name}: {error}" if seed is None else f"{name}: seed {options.seed}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{name}: interrupted; nothing was written")
    if sections.merge:
        this_run["minutes"] = round((time.monotonic() - began) / 60, 1)
        results["runs"] = dict.fromkeys(options.only or sections.names, this_run)
    sys.stdout.write(as_json(results))
    if wrong := results.get("wrong"):
        sys.exit("\n".join([f"{name}:", *wrong]))
    if options.out:
        page = options.out / f"{name}.md"
        if options.only and sections.merge:
            earlier = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
            results = sections.merge(earlier, results) | {"runs": earlier["runs"] | results["runs"]}
        write(results, template, page)


def _options(name: str, sections: Sections, seed: int | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=name, description=sys.modules["__main__"].__doc__)
    parser.set_defaults(only=None, seed=None)
    parser.add_argument("--smoke", action="store_true", help="each section with a tiny load; its figures mean nothing")
    if names := sections.names:
        parser.add_argument("--only", nargs="+", choices=names, metavar="SECTION", help=", ".join(names))
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed, help="of all random inputs (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the page and the JSON")
    options = parser.parse_args()
    if options.out and options.smoke:
        parser.error("--out writes a page, whose figures have a meaning: without --smoke")
    if options.out and options.only and not sections.merge:
        parser.error("--out writes the page of a whole run: without --only")
    if options.out and options.only and not (options.out / f"{name}.json").exists():
        parser.error(f"--out writes sections of a page with --only, and {options.out} has none")
    return options


def _this_run() -> dict[str, Any]:
    """Return what identifies a run on a page: its day and its commit, if this is a checkout."""
    described = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(described, cwd=CHECKOUT, check=False, capture_output=True, text=True).stdout.strip()
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit or None}


def progress() -> Notify:
    """Return a function that prints a line to standard error, with the seconds since this call."""
    began = time.monotonic()

    def notify(line: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {line}", file=sys.stderr, flush=True)

    return notify
