"""The ratios that are cheap to take, held in CI, far enough below what they are that noise does not trip them."""

import sys

from tests.evidence.bench.performance.decision import RECORD, VERDICT, decisions
from tests.evidence.bench.performance.page import table

LEAST = {VERDICT: 0.5, RECORD: 0.25}
"""Of the best library's decisions a second; `make bench` has what they are."""


def main() -> None:
    """Exit 1 if one is lost."""
    figures = [each for each in decisions(rounds=9) if each.what in LEAST]
    print(table("decision", figures).markdown())
    lost = [
        f"{each.what}: {each.ratio:.2f}, below {LEAST[each.what]}" for each in figures if each.ratio < LEAST[each.what]
    ]
    if lost:
        sys.exit(f"guard: of {figures[0].limit}: {'; '.join(lost)}")


if __name__ == "__main__":
    main()
