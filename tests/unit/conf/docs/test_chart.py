"""The page of the chart's values has each of them, with its default."""

import re

import yaml

from tests.support.checkout import CHECKOUT

CHART = CHECKOUT / "conf/helm"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
ROWS = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", (CHART / "README.md").read_text(), re.MULTILINE)


def leaves(value, path=""):
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from leaves(member, f"{path}.{name}".lstrip("."))
    else:
        yield path


def test_each_value_has_a_row():
    shown = [path for path, _ in ROWS]
    assert [path for path in leaves(VALUES) if not any(f"{path}.".startswith(f"{row}.") for row in shown)] == []
    assert len(shown) == len(set(shown))


def test_each_row_has_the_default():
    for path, default in ROWS:
        value = VALUES
        for name in path.split("."):
            value = value[name]
        assert yaml.safe_load(default) == value, path
