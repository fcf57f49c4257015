"""The picture performance.svg: latency by rate, cost by active keys, and cost by the size of the state."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tests.evidence.bench.performance.figure import Figure
from tests.evidence.pictures import save

_STYLE = {
    "svg.hashsalt": "performance",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_LOOKS = {
    "enforce": ("#D55E00", "^"),
    "enforce and audit": ("#D55E00", "^"),
    "empty function": ("#E69F00", "s"),
    "pass-through": ("#0072B2", "o"),
}
"""The colour and the shape of each system; the colours of Okabe and Ito, which colour-blind people can distinguish."""
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
        save(picture, file)


def _latency(axes: Axes, figures: Sequence[Figure]) -> None:
    axes.set(title="latency", xlabel="requests/s", ylabel="produce to consume, ms", xscale="log", yscale="log")
    for number, name in enumerate(("p50", "p99")):
        of_name = [each for each in figures if each.what.startswith(name)]
        line = ("-", "--")[number]
        _line(axes, [(each.at, each.median) for each in of_name], "enforce and audit", f", {name}", line)
        _line(axes, [(each.at, each.limit_median) for each in of_name], "pass-through", f", {name}", line)
    axes.set_xticks(sorted({each.at for each in figures}))


def _throughput(axes: Axes, figures: Sequence[Figure]) -> None:
    axes.set(
        title="draining a backlog", xlabel="active keys in a batch", ylabel="requests/s", xscale="log", yscale="log"
    )
    sides = {side: [each for each in figures if each.what.startswith(side)] for side in ("empty function", "enforce")}
    _line(axes, [(each.at, each.limit_median) for each in sides["empty function"]], "pass-through")
    for side, of_side in sides.items():
        _line(axes, [(each.at, each.median) for each in of_side], side)
    axes.set_xticks(sorted({each.at for each in figures}))


def _state(axes: Axes, figures: Sequence[Figure]) -> None:
    axes.set(
        title="a batch of 1,000 active keys",
        xlabel="buckets in the store",
        ylabel="duration of a batch, ms",
        xscale="log",
    )
    _line(axes, [(each.at, each.median) for each in figures], "enforce")
    axes.set_xticks(sorted({each.at for each in figures}))


def _line(axes: Axes, points: Sequence[tuple[float, float]], system: str, of: str = "", line: str = "-") -> None:
    xs, ys = zip(*points, strict=True)
    colour, shape = _LOOKS[system]
    axes.plot(xs, ys, line, color=colour, marker=shape, markersize=4, linewidth=1.4, label=system + of)
