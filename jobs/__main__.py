"""The program `mutation-quota`: the versions are printed without the imports of all commands, which take 0.3 s."""

import jobs.signals  # noqa: F401 the first import: it handles Ctrl-C during the others

# isort: split
import sys

from jobs.installation import version_lines


def main() -> None:
    """Run the program."""
    if sys.argv[1:] == ["--version"]:
        print("\n".join(version_lines()))
        return
    from jobs.cli.program import main as run

    run()


if __name__ == "__main__":
    main()
