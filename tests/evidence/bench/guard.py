"""Ratios that are cheap to measure, checked in CI against bounds that leave room for noise."""

import sys

from tests.evidence.bench.performance.sections.decision import RECORD, VERDICT, decisions

LEAST = {VERDICT: 0.5, RECORD: 0.25}
"""Shares of the best library's decisions a second; `make bench` measures the ratios."""


def main() -> None:
    """Exit 1 if a ratio is below its bound."""
    figures = [figure for figure in decisions(rounds=9) if figure.what in LEAST]
    for figure in figures:
        print(f"{figure.what}: {figure.ratio:.2f} of {figure.limit}")
    lost = [
        f"{figure.what}: {figure.ratio:.2f}, below {LEAST[figure.what]}"
        for figure in figures
        if figure.ratio < LEAST[figure.what]
    ]
    if lost:
        sys.exit(f"guard: compared with {figures[0].limit}: {'; '.join(lost)}")


if __name__ == "__main__":
    main()
