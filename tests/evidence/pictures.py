"""Pictures of pages: drawn by matplotlib, with colours for a light and for a dark scheme."""

import re
from pathlib import Path

from matplotlib.figure import Figure

COLOURS = {
    "#ffffff": ("paper", "#ffffff", "#15181d"),
    "#000000": ("ink", "#000000", "#e6e9ee"),
    "#dddddd": ("grid", "#dddddd", "#363c45"),
    "#0072b2": ("blue", "#0072b2", "#56b4e9"),
    "#009e73": ("green", "#009e73", "#2fc497"),
    "#d55e00": ("orange", "#d55e00", "#f5822f"),
    "#e69f00": ("yellow", "#e69f00", "#f0b432"),
}
"""The name of each colour, and what it is in a light and in a dark scheme; the last four are of Okabe and Ito."""


def save(figure: Figure, file: Path, dpi: int = 110) -> None:
    """Write a picture as SVG that follows the reader's colour scheme, or as PNG on white.

    Args:
        figure: The picture, in `COLOURS`.
        file: The file, svg or png.
        dpi: The dots per inch of what is rasterized.
    """
    is_svg = file.suffix == ".svg"
    figure.savefig(file, metadata={"Date": None} if is_svg else None, facecolor="white", dpi=dpi)
    if is_svg:
        file.write_text(themed(file.read_text(encoding="utf-8")), encoding="utf-8")


def themed(svg: str) -> str:
    """Return an SVG of matplotlib's with variables for its colours, which a media query sets."""
    light, dark = ("".join(f"--{each[0]}: {each[scheme]}; " for each in COLOURS.values()) for scheme in (1, 2))
    style = (
        f"<style>svg {{ {light}fill: var(--ink) }} @media (prefers-color-scheme: dark) {{ svg {{ {dark}}} }}</style>"
    )
    for colour, (name, _, _) in COLOURS.items():
        svg = re.sub(colour, f"var(--{name})", svg, flags=re.IGNORECASE)
    return re.sub(r"(<svg\b[^>]*>)", lambda found: f"{found[0]}\n {style}", svg, count=1)
