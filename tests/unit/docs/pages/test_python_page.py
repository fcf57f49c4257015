"""The page on the Python API shows what the public modules export."""

import importlib
import re

import pytest

from tests.support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/reference/python.md").read_text()


@pytest.mark.parametrize("module", ["quota.kafka.admin", "quota.callbacks", "quota.testing", "quota.settings"])
def test_the_page_shows_each_name_that_a_public_module_exports(module):
    shown = set(re.findall(rf"^::: {re.escape(module)}\.(\w+)$", PAGE, re.MULTILINE))
    assert shown == set(importlib.import_module(module).__all__)
