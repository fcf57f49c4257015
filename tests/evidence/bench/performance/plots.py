"""The picture performance.svg: latency by rate, cost by active keys, and cost by the size of the state."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tests.evidence.bench.performance.figure import Figure

_STYLE = {
    "svg.hashsalt": "performance",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73")
"""Colours of Okabe and Ito, which colour-blind people can distinguish, and shapes."""
_SHAPES = "os^D"
_ROOM_FOR_LEGEND = 1.4


def draw(figures: Sequence[Figure], file: Path) -> None:
    """Draw three plots side by side, without those that have no figures."""
    drawers = {"latency": _latency, "throughput": _throughput, "state": _state}
    there = [name for name in drawers if any(each.section == name and each.at is not None for each in figures)]
    if not there:
        return
    with mpl.rc_context(_STYLE):
        picture = Picture(figsize=(4.2 * len(there), 3.6), layout="constrained")
        for name, axes in zip(there, picture.subplots(1, len(there), squeeze=False)[0], strict=True):
            drawers[name](axes, [each for each in figures if each.section == name and each.at is not None])
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            lowest, highest = axes.get_ylim()
            if axes.get_yscale() == "log":
                axes.set_ylim(lowest, highest * (highest / lowest) ** (_ROOM_FOR_LEGEND - 1))
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            else:
                axes.set_ylim(0, highest * _ROOM_FOR_LEGEND)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.grid(axis="y", color="#dddddd", linewidth=0.6)
            axes.legend(frameon=False, fontsize=8)
        picture.savefig(file, metadata={"Date": None}, facecolor="white")


def _latency(axes: Axes, figures: Sequence[Figure]) -> None:
    axes.set(title="latency", xlabel="requests/s", ylabel="produce to consume, ms", xscale="log", yscale="log")
    for number, name in enumerate(("p50", "p99")):
        of_name = [each for each in figures if each.what.startswith(name)]
        _line(axes, [(each.at, each.median) for each in of_name], f"enforce and audit, {name}", 2 + number)
        _line(axes, [(each.at, each.limit_median) for each in of_name], f"pass-through, {name}", number)
    axes.set_xticks(sorted({each.at for each in figures}))


def _throughput(axes: Axes, figures: Sequence[Figure]) -> None:
    axes.set(
        title="draining a backlog", xlabel="active keys in a batch", ylabel="requests/s", xscale="log", yscale="log"
    )
    sides = {side: [each for each in figures if each.what.startswith(side)] for side in ("empty function", "enforce")}
    _line(axes, [(each.at, each.limit_median) for each in sides["empty function"]], "pass-through", 0)
    for number, (side, of_side) in enumerate(sides.items(), 1):
        _line(axes, [(each.at, each.median) for each in of_side], side, number)
    axes.set_xticks(sorted({each.at for each in figures}))


def _state(axes: Axes, figures: Sequence[Figure]) -> None:
    axes.set(title="a batch of 1,000 active keys", xlabel="buckets in the store", ylabel="ms", xscale="log")
    _line(axes, [(each.at, each.median) for each in figures], "enforce", 2)
    axes.set_xticks(sorted({each.at for each in figures}))


def _line(axes: Axes, points: Sequence[tuple[float, float]], label: str, look: int) -> None:
    xs, ys = zip(*points, strict=True)
    axes.plot(xs, ys, color=_COLOURS[look], marker=_SHAPES[look], markersize=4, linewidth=1.4, label=label)
