"""Compares unmodified clients at the gateway with the same clients at a broker that enforces the quota itself."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from quota.errors import MutationQuotaError
from tests.evidence.gateway.comparison import compare
from tests.evidence.gateway.ground import ground
from tests.evidence.gateway.page import Played, Result, difference_table, mismatch_table, page, program_table
from tests.evidence.gateway.program import Program, Unavailable
from tests.evidence.gateway.programs import PROGRAMS
from tests.evidence.pages import progress, terminal, write_page

_COLUMNS = 180
_OUT = Path("docs/evidence/gateway")


def main() -> None:
    """Run the programs; exit 1 if there are differences that are not listed."""
    options = _options()
    console = terminal(_COLUMNS)
    programs = [each for each in PROGRAMS if (each.quick or not options.quick) and each.name in options.only]
    try:
        result = play_all(programs, progress(console), options.slow)
    except (MutationQuotaError, subprocess.SubprocessError) as error:
        sys.exit(f"gateway: {error}")
    except KeyboardInterrupt:
        sys.exit("gateway: interrupted; nothing was written")
    console.print(program_table(result).drawn())
    console.print(difference_table(result).drawn())
    if result.mismatches:
        console.print(mismatch_table(result).drawn())
        sys.exit(f"gateway: {len(result.mismatches)} of {len(result.rows)} observations differ")
    if programs == list(PROGRAMS):
        write_page(options.out / "gateway-conformance.md", page(result), console)
    console.print("only listed differences were found", style="bold green")


def _options() -> argparse.Namespace:
    names = [each.name for each in PROGRAMS]
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some of the programs, without the page")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these programs, without the page")
    parser.add_argument(
        "--slow", type=float, default=1.0, metavar="F", help="factor for the time tolerances (default: 1)"
    )
    parser.add_argument("--out", type=Path, default=_OUT, metavar="FOLDER", help="for gateway-conformance.md")
    return parser.parse_args()


def play_all(programs: list[Program], notify, slow: float = 1.0) -> Result:
    """Play programs one after another, each on both sides at the same time."""
    played, first = [], 0
    notify("starting the broker, the job and the gateway")
    with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder, ground(Path(folder)) as on:
        for program in programs:
            notify(program.name)
            try:
                direct, gateway = program.run(on, first)
            except Unavailable as missing:
                notify(f"{program.name} is not run: {missing}")
                played.append(Played(program, (), str(missing)))
            else:
                played.append(Played(program, list(compare(program, direct, gateway, slow))))
            first += program.users
        return Result(played, on.protocol.version, on.decisions())


if __name__ == "__main__":
    main()
