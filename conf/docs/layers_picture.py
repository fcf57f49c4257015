"""Draws the picture of the layers from the import contracts in `pyproject.toml`."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_ROW, _BOX, _GAP, _PANEL, _MARGIN, _TITLE = 50, 36, 10, 475, 20, 44

_IMPORTS = (
    "Each package imports only packages in layers below its own. jobs imports schemas and quota; schemas imports quota."
)

_STYLE = """<style>
  .page { fill: #ffffff } .panel { fill: #f3f6fb; stroke: #c6d2e4 }
  .box { fill: #dbe8ff; stroke: #2f6fde; stroke-width: 1.3 }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1d2733 }
  .name { font-size: 14px; text-anchor: middle } .head { font-size: 17px; font-weight: 700 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .panel { fill: #161c26; stroke: #34405a }
    .box { fill: #14284d; stroke: #6fa0ff } text { fill: #e8edf4 }
  }
</style>"""


def layers_picture() -> str:
    """Return the picture as SVG, readable on light and on dark: each layer is a row, from the highest."""
    jobs, quota = _layers("The layers of jobs"), _layers("The layers of quota")
    rows = max(len(jobs), len(quota) + 2)
    panel_height = _TITLE + rows * _ROW
    height = panel_height + 2 * _MARGIN
    right = _PANEL + 2 * _MARGIN + 10
    schemas_height = _TITLE + _ROW
    about = f"{_IMPORTS} From the top, jobs: {_listed(jobs)}. From the top, quota: {_listed(quota)}."
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + _PANEL + _MARGIN} {height}" role="img" '
            'aria-labelledby="title about">'
        ),
        '<title id="title">The packages as layers</title>',
        f'<desc id="about">{about}</desc>',
        _STYLE,
        f'<rect class="page" width="{right + _PANEL + _MARGIN}" height="{height}"/>',
        *_panel("jobs: imports schemas and quota", jobs, _MARGIN, _MARGIN, panel_height),
        *_panel("schemas: imports quota", [["columns", "documents"]], right, _MARGIN, schemas_height),
        *_panel("quota", quota, right, _MARGIN + schemas_height + 6, panel_height - schemas_height - 6),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _layers(name: str) -> list[list[str]]:
    contracts = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["name"] == name)
    return [[part.strip() for part in layer.replace(":", "|").split("|")] for layer in layers]


def _listed(layers: Sequence[Sequence[str]]) -> str:
    return "; ".join(", ".join(layer) for layer in layers)


def _panel(name: str, layers: Sequence[Sequence[str]], left: int, top: int, height: int) -> Iterator[str]:
    yield f'<rect class="panel" x="{left}" y="{top}" width="{_PANEL}" height="{height}" rx="10"/>'
    yield f'<text class="head" x="{left + 16}" y="{top + 28}">{name}</text>'
    inner = _PANEL - 32
    for row, layer in enumerate(layers):
        width = (inner - _GAP * (len(layer) - 1)) / len(layer)
        y = top + _TITLE + row * _ROW
        for column, package in enumerate(layer):
            x = left + 16 + column * (width + _GAP)
            yield f'<rect class="box" x="{x:g}" y="{y}" width="{width:g}" height="{_BOX}" rx="6"/>'
            yield f'<text class="name" x="{x + width / 2:g}" y="{y + 23}">{package}</text>'
