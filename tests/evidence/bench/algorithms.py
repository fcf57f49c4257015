"""The three algorithms over the same requests as a picture: `make algorithms` writes it."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from quota.admission.decide import decide
from quota.algorithms.registry import AlgorithmName, make_algorithm
from quota.algorithms.token_bucket import tokens_at
from quota.records.decision import Decision
from quota.records.fields import BEGINNING
from quota.records.quota import Limit, Quota, Window
from tests.evidence.pictures import save
from tests.support.factories import resolved

RATE = 5.0
WINDOW = Window(num=100)
BURST, AGAIN, SMALL = [80] * 7, [80] * 5, [20]
COURSE = [(0, BURST), *((second, SMALL) for second in range(4, 64, 4)), (120, AGAIN), (124, SMALL), (128, SMALL)]
"""KIP-599's burst; a topic of 20 partitions every 4 s, which is Q, for a minute; a minute's pause; a second burst.

Each entry is a time (seconds) and the partitions of each topic.
"""
_FROM, _UNTIL, _STEP_MS = -6, 140, 100

_OUT = Path("docs/explanation/algorithms.svg")

_STYLE = {
    "svg.hashsalt": "algorithms",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_LEVEL, _ADMITTED, _REFUSED, _PARTIAL = "#0072B2", "#009E73", "#D55E00", "#E69F00"
"""Colours of Okabe and Ito, which colour-blind people can distinguish, and shapes."""
_LOOKS = {
    "ADMITTED": (_ADMITTED, "^", "request admitted"),
    "PARTIAL": (_PARTIAL, "D", "admitted in part"),
    "REJECTED": (_REFUSED, "X", "refused"),
}
_TITLES = {
    AlgorithmName.TOKEN_BUCKET: "token-bucket, which is enforced: tokens come back at Q, at once",
    AlgorithmName.SAMPLED_RATE: "sampled-rate, Kafka's before the KIP: the burst counts in full for 100 s",
    AlgorithmName.SPREAD_RATE: "spread-rate, the KIP's earlier version: the burst fades window by window",
}
_NOTES = {
    AlgorithmName.TOKEN_BUCKET: [
        (2, -95, "left", "560 of 500: K = -60, throttled for 12 s"),
        (117, 300, "right", "K = 280"),
    ],
    AlgorithmName.SAMPLED_RATE: [
        (2, 6.05, "left", "560 / 100: R = 5.6, throttled for 12 s each time"),
        (99, 2.5, "right", "its sample is discarded"),
    ],
    AlgorithmName.SPREAD_RATE: [
        (2, 6.05, "left", "99 windows of 5 and one of 65: R = 5.6, throttled for 12 s"),
        (99, 2.5, "right", "the window of 65 falls out"),
    ],
}
"""Second and level at which a text begins or ends."""


@dataclass(frozen=True, slots=True)
class Run:
    """The decisions of an algorithm, and its level (tokens, or a rate) over time in seconds."""

    name: AlgorithmName
    decisions: list[tuple[int, Decision]]
    level: list[tuple[float, float]]


def run(name: AlgorithmName) -> Run:
    """Decide the course, and sample the level every tenth of a second."""
    algorithm, state, decisions, level = make_algorithm(name, WINDOW), None, [], []
    waiting = list(COURSE)
    for now in range(_FROM * 1000, _UNTIL * 1000 + 1, _STEP_MS):
        while waiting and waiting[0][0] * 1000 <= now:
            second, topics = waiting.pop(0)
            level.append((second, _LEVELS[name](state, now)))
            state, (decision,) = decide(state, [resolved(*topics, at=second * 1000, rate=RATE)], algorithm)
            decisions.append((second, decision))
        level.append((now / 1000, _LEVELS[name](state, now)))
    return Run(name, decisions, level)


def _tokens(state: Any, now: int) -> float:
    return tokens_at(now, state, Limit(Quota(RATE), BEGINNING), WINDOW)


def _rate(state: Any, now: int) -> float:
    return state.charges.at(now, WINDOW).total / (WINDOW.total_ms / 1000) if state else 0.0


_LEVELS: dict[AlgorithmName, Callable[[Any, int], float]] = {
    AlgorithmName.TOKEN_BUCKET: _tokens,
    AlgorithmName.SAMPLED_RATE: _rate,
    AlgorithmName.SPREAD_RATE: _rate,
}


def draw(runs: Sequence[Run], file: Path) -> None:
    """Draw a panel for each run: the level, the range in which topics are refused, and the outcome of each request."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9, 8), layout="constrained")
        panels = figure.subplots(len(runs), 1, sharex=True)
        for axes, each in zip(panels, runs, strict=True):
            _draw_run(axes, each)
        panels[-1].set_xlabel("seconds")
        figure.align_ylabels(panels)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
        save(figure, file)


def _draw_run(axes: Axes, drawn: Run) -> None:
    bucket = drawn.name is AlgorithmName.TOKEN_BUCKET
    limit, low, high = (0.0, -130.0, 640.0) if bucket else (RATE, -0.4, 7.3)
    refusing = (low, limit) if bucket else (limit, high)
    axes.axhspan(*refusing, color=_REFUSED, alpha=0.09, linewidth=0, label="where topics are refused")
    axes.axhline(limit, color="black", linewidth=0.8, linestyle=":")
    axes.plot(*zip(*drawn.level, strict=True), color=_LEVEL, linewidth=1.5, label="level")
    strip = high - (high - low) * 0.07
    for outcome, (colour, shape, label) in _LOOKS.items():
        seconds = [second for second, decision in drawn.decisions if decision.outcome.value == outcome]
        axes.plot(
            seconds,
            [strip] * len(seconds),
            shape,
            color=colour,
            markersize=6,
            markeredgewidth=0,
            label=label,
        )
    axes.text(_UNTIL, limit, " K = 0" if bucket else " Q = 5", va="center")
    for second, level, side, text in _NOTES[drawn.name]:
        axes.text(second, level, text, ha=side, fontsize=8.5)
    axes.set(xlim=(_FROM, _UNTIL), ylim=(low, high), ylabel="tokens K" if bucket else "rate R, mutations/s")
    axes.set_xticks(range(0, _UNTIL + 1, 20))
    axes.set_title(_TITLES[drawn.name], loc="left", fontsize=10)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.bench.algorithms", description=__doc__)
    parser.add_argument("--out", type=Path, default=_OUT, metavar="FILE", help="svg or png")
    options = parser.parse_args()
    runs = [run(name) for name in AlgorithmName]
    for each in runs:
        for second, decision in each.decisions:
            codes = "".join("R" if topic.error_code else "A" for topic in decision.topics)
            print(f"{each.name.value:12} {second:4} s  {codes:7} {decision.controller_throttle_ms:6} ms")
    draw(runs, options.out)


if __name__ == "__main__":
    main()
