"""The picture docs/evidence/experiment/experiment.svg."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from tests.evidence.experiment.arm import DECIDED, DIRECT
from tests.evidence.experiment.figures import Arm, Create, Phase
from tests.evidence.experiment.storm import PARTITIONS
from tests.evidence.pictures import save

_LOOKS = {(0, DIRECT): ("#D55E00", "o"), (1, DIRECT): ("#0072B2", "s"), (1, DECIDED): ("#009E73", "^")}
"""Colours of Okabe and Ito, which colour-blind people can distinguish, and shapes."""

_STYLE = {
    "svg.hashsalt": "experiment",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_PANELS = (
    ("A tenant's create is answered after", "ms"),
    ("Its topic is usable after", "ms"),
    ("Mutations of the storm", "mutations/s"),
)
"""The title and the unit of each row."""

_BEFORE_SECONDS = 3.0
_AFTER_SECONDS = 3.0
_LABEL_SHARE = 0.25
"""The share of the axis that a label takes."""


def draw(arms: Sequence[Arm], rate: float, file: Path) -> None:
    """Draw each create of the tenants and the throughput of the storm, for creation and deletion."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, 8), layout="constrained")
        axes = figure.subplots(3, 2, sharex="col", sharey="row", height_ratios=(2, 3, 2))
        for column, phase in enumerate(("creation", "deletion")):
            _draw_phase(axes[:, column], arms, phase, rate)
        for row, (title, unit) in enumerate(_PANELS):
            for column, phase in enumerate(("creation", "deletion")):
                axes[row, column].set_title(f"{title}, {phase} of the storm's topics", fontsize=9, loc="left")
            axes[row, 0].set_ylabel(unit)
            axes[row, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axes[row, 0].yaxis.set_minor_formatter(NullFormatter())
        handles, labels = axes[1, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, markerscale=1.8)
        save(figure, file, dpi=200)


def _draw_phase(axes: Sequence[Axes], arms: Sequence[Arm], name: str, rate: float) -> None:
    answered, usable, mutations = axes
    phases: list[Phase] = [getattr(arm, name) for arm in arms]
    longest = max(phase.ended - phase.begun for phase in phases) + _AFTER_SECONDS
    looks = {(number, tenant): look for (number, tenant), look in _LOOKS.items() if tenant in arms[number].creates}
    for (number, tenant), (colour, shape) in looks.items():
        phase = phases[number]
        creates = [
            each
            for each in arms[number].creates[tenant]
            if -_BEFORE_SECONDS <= each.due - phase.begun <= phase.ended - phase.begun
        ]
        label = f"{arms[number].name}, tenant {tenant}"
        _dots(answered, [(each, each.seconds_to_answer) for each in creates], phase, (colour, shape, label))
        _dots(usable, [(each, each.seconds_to_use) for each in creates], phase, (colour, shape, label))
    for number, phase in enumerate(phases):
        _steps(mutations, phase, _LOOKS[number, DIRECT][0], 1.0 if number else 2.0)
        if phase.caught_up is not None:
            _mark_caught_up(usable, phase, longest, _LOOKS[number, DIRECT][0], number)
    mutations.axhline(rate, color="black", linewidth=0.8, linestyle=":")
    mutations.text(1, 0.95, f"dotted: the quota, {rate:g}/s", transform=mutations.transAxes, ha="right", va="top")
    for each in (answered, usable, mutations):
        each.set_yscale("log")
        each.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        each.set_axisbelow(True)
        each.axvline(0, color="black", linewidth=0.8)
    mutations.set_xlim(-_BEFORE_SECONDS, longest)
    mutations.set_xlabel(f"seconds since the {name} began")


def _dots(axes: Axes, timed: Sequence[tuple[Create, float | None]], phase: Phase, looks: tuple[str, str, str]) -> None:
    colour, shape, label = looks
    points = [(create.due - phase.begun, seconds * 1000) for create, seconds in timed if seconds is not None]
    axes.plot(
        *zip(*points, strict=True),
        shape,
        color=colour,
        markersize=2.4,
        markeredgewidth=0,
        label=label,
        rasterized=True,  # thousands of shapes would make a large file
    )


def _mark_caught_up(axes: Axes, phase: Phase, longest: float, colour: str, number: int) -> None:
    """Draw a line where the cluster had caught up, labelled at a different height for each arm.

    The label is on the left of the line, unless that part of the axis, `longest` seconds long, has no room for it.
    """
    seconds = (phase.caught_up or phase.ended) - phase.begun
    has_room = seconds > _LABEL_SHARE * longest
    axes.axvline(seconds, color=colour, linewidth=1.0, linestyle="--")
    axes.annotate(
        f"caught up, {seconds:.0f} s",
        (seconds, 0.97 - 0.09 * number),
        xycoords=("data", "axes fraction"),
        xytext=(-3 if has_room else 3, 0),
        textcoords="offset points",
        ha="right" if has_room else "left",
        va="top",
        color=colour,
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
    )


def _steps(axes: Axes, phase: Phase, colour: str, width: float) -> None:
    """Draw the mutations applied in each second."""
    per_second = Counter(int(each.at - phase.begun) for each in phase.settled if each.error is None)
    if per_second:
        heights = [per_second[second] * PARTITIONS for second in range(max(per_second) + 1)]
        axes.stairs(heights, range(len(heights) + 1), color=colour, linewidth=width, baseline=None)
