"""The files of a storage root, as Hadoop reaches them."""

import resource

import pytest

from jobs.storage.files import Files
from quota.errors import MutationQuotaError
from tests.support.deployment import make_deployment

HIVES = "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem"
"""What Spark uses for local files by default, on every cluster: its jars of Hive say so."""


@pytest.fixture
def with_property(spark):
    """Return a function that sets a Hadoop property of the session until the end of the test."""
    names = []

    def set_property(name, value):
        names.append((name, spark.conf.get(name, None)))
        spark.conf.set(name, value)

    yield set_property
    for name, before in names:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def test_a_local_folder_is_not_mistaken_for_one_of_hdfs(spark, base_settings, with_property):
    with_property("fs.defaultFS", "hdfs://127.0.0.1:8020")
    with pytest.raises(MutationQuotaError, match=r"default file system here is hdfs:\/\/127\.0\.0\.1:8020; set"):
        Files(spark, base_settings)


def test_a_file_is_replaced_on_any_local_file_system(spark, base_settings, tmp_path, with_property):
    with_property("fs.file.impl", HIVES)
    with_property("fs.file.impl.disable.cache", "true")
    files = Files(spark, make_deployment(base_settings, "replaced", tmp_path))
    for text in ("old", "new"):
        files.write("leases/enforce/1", text)
        assert files.read("leases/enforce/1") == text
    assert [each.name for each in (tmp_path / "leases" / "enforce").iterdir()] == ["1"]


def test_a_failed_write_leaves_no_empty_file(spark, base_settings, tmp_path):
    files = Files(spark, make_deployment(base_settings, "full", tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # as on a full disk
    try:
        with pytest.raises(OSError, match="File too large"):
            files.create("leases/enforce/1", "text")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files.create("leases/enforce/1", "text")
    assert files.read("leases/enforce/1") == "text"
