"""The pictures that matplotlib draws for the pages follow the reader's colour scheme."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.evidence.pictures import themed
from tests.support.checkout import CHECKOUT

PICTURES = [each for each in sorted((CHECKOUT / "docs").rglob("*.svg")) if "Matplotlib" in each.read_text()]
STYLE = re.compile(r"<style>svg .*?</style>")


def test_there_are_pictures():
    assert len(PICTURES) >= 4


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.name)
def test_a_picture_has_each_of_its_colours_for_light_and_for_dark(file):
    svg = file.read_text()
    (style,) = STYLE.findall(svg)
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    used = set(re.findall(r"var\((--\w+)\)", svg))
    assert {"--paper", "--ink"} <= used
    assert all(f"{name}: #" in light and f"{name}: #" in dark for name in used)
    assert set(re.findall(r"#[0-9a-fA-F]{6}\b", STYLE.sub("", svg))) == set()
    ET.fromstring(svg)  # noqa: S314 our own file


def test_colours_in_any_case_become_variables():
    svg = themed('<?xml version="1.0"?><svg width="1"><path style="stroke: #DDDDDD; fill: #ffffff"/></svg>')
    assert 'style="stroke: var(--grid); fill: var(--paper)"' in svg
    assert svg.index("<svg") < svg.index("<style>") < svg.index("<path")
