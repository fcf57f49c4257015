"""The files of a storage root, as Hadoop reaches them."""

import pytest

from jobs.storage.files import open_files
from quota.errors import MutationQuotaError

DEFAULT = "fs.defaultFS"


def test_a_local_folder_is_not_mistaken_for_one_of_hdfs(spark, base_settings):
    spark.conf.set(DEFAULT, "hdfs://127.0.0.1:8020")
    try:
        with pytest.raises(MutationQuotaError, match=r"default file system here is hdfs:\/\/127\.0\.0\.1:8020; set"):
            open_files(spark, base_settings)
    finally:
        spark.conf.unset(DEFAULT)
