"""What the programs of the gateway's evidence have in common: a broker, JSON on standard output, and a page."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.evidence.gateway.ground import Ground, ground
from tests.evidence.progress import progress
from tests.evidence.report import publish

Notify = Callable[[str], None]
"""Takes a line of progress."""


def run(
    name: str,
    play: Callable[[Ground, argparse.Namespace, Notify], dict[str, Any]],
    template: Path,
    users: Sequence[str] = (),
    *,
    has_seed: bool = False,
) -> None:
    """Run a program on its own broker; results with a value of `wrong` make no page, and the exit code 1.

    Args:
        name: Its name, and that of its page.
        play: Returns the results, given the options.
        template: The template of the page.
        users: Users of the broker.
        has_seed: Whether there is an option `seed`.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no process may outlive this one
    parser = argparse.ArgumentParser(prog=name, description=sys.modules["__main__"].__doc__)
    parser.add_argument("--smoke", action="store_true", help="each section with a tiny load; its figures mean nothing")
    if has_seed:
        parser.add_argument("--seed", type=int, default=int(time.time()), help="of random times (default: the time)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the page and the JSON of a whole run")
    options = parser.parse_args()
    if options.out and options.smoke:
        parser.error("--out writes the page of a whole run: without --smoke")
    try:
        with TemporaryDirectory(prefix="mutation-quota-") as folder:
            settings = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
            with ground(settings, Path(folder), users) as where:
                results = play(where, options, progress())
    except (MutationQuotaError, AssertionError) as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{name}: interrupted; nothing was written")
    wrong = results.get("wrong")
    publish(results, template, options.out / f"{name}.md" if options.out and not wrong else None)
    if wrong:
        sys.exit("\n".join([f"{name}:", *wrong]))
