"""The folders of jars."""

import pytest

from jobs.spark.installation import jars_folder, spark_jars
from quota.errors import BadInput


@pytest.mark.parametrize(
    ("find", "setting"),
    [
        (spark_jars, "spark.jars"),
        (jars_folder, "broker.jars"),
    ],
)
def test_a_folder_without_jars_is_named_with_its_setting(tmp_path, find, setting):
    with pytest.raises(BadInput) as raised:
        find(str(tmp_path))
    assert str(raised.value) == f"no jars in {tmp_path}; run make jars, or set {setting}"
