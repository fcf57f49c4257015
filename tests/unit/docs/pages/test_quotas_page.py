"""The page on quotas shows a file that is valid."""

import re

from quota.timeline.quota_file import read_quota_file
from tests.support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs/how-to/quotas.md").read_text()


def test_the_file_on_the_page_is_valid():
    (file,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert [str(each.entity) for each in read_quota_file(file.encode(), "the page")] == [
        "the default user-principal",
        "user-principal 'alice'",
        "client-id 'etl'",
    ]
