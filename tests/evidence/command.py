"""What the programs of the evidence have in common: options, lines of progress, JSON on standard output, and a page."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quota.errors import MutationQuotaError
from tests.evidence.report import as_json, write

Notify = Callable[[str], None]
"""Takes a line of progress."""


def run(
    name: str,
    play: Callable[[argparse.Namespace, Path, Notify], dict[str, Any]],
    template: Path,
    sections: Iterable[str] = (),
    seed: int | None = None,
) -> None:
    """Run a program; results with a value of `wrong` make no page, and the exit code 1.

    Args:
        name: Its name, and that of its page.
        play: Returns the results, given the options and a folder that exists as long as it runs.
        template: The template of the page.
        sections: The choices of the option `only`; none for a program that has one section.
        seed: The default of the option `seed`; None for a program without random inputs.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no process may outlive this one
    parser = argparse.ArgumentParser(prog=name, description=sys.modules["__main__"].__doc__)
    parser.set_defaults(only=None, seed=None)
    parser.add_argument("--smoke", action="store_true", help="each section with a tiny load; its figures mean nothing")
    if sections:
        parser.add_argument("--only", nargs="+", choices=sections, metavar="SECTION", help=", ".join(sections))
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed, help="of all random inputs (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the page and the JSON of a whole run")
    options = parser.parse_args()
    if options.out and (options.smoke or options.only):
        parser.error("--out writes the page of a whole run: without --smoke and --only")
    try:
        with TemporaryDirectory(prefix="mutation-quota-") as folder:
            results = play(options, Path(folder), progress())
    except (MutationQuotaError, AssertionError) as error:
        sys.exit(f"{name}: {error}" if seed is None else f"{name}: seed {options.seed}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{name}: interrupted; nothing was written")
    sys.stdout.write(as_json(results))
    if wrong := results.get("wrong"):
        sys.exit("\n".join([f"{name}:", *wrong]))
    if options.out:
        write(results, template, options.out / f"{name}.md")


def progress() -> Notify:
    """Return a function that prints a line to standard error, with the seconds since this call."""
    began = time.monotonic()

    def notify(line: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {line}", file=sys.stderr, flush=True)

    return notify
