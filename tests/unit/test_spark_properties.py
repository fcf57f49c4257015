"""Spark's properties: what spark-submit was told, what the settings say, what was measured."""

from itertools import starmap

from jobs.spark_properties import measured, spark_properties, submitted_properties
from quota.settings import load_settings

PARTITIONS = "spark.sql.shuffle.partitions"


def load(*overrides):
    return load_settings(overrides, environment={}, with_default_file=False)


def test_what_was_measured_is_in_the_file_that_spark_submit_reads():
    found = measured()
    assert all(starmap(lambda name, value: name.startswith("spark.") and value == value.strip(), found.items()))
    assert found["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert spark_properties(load()).items() >= found.items()


def test_what_spark_submit_was_told_goes_before_settings_and_what_was_measured():
    given = {"spark.master": "yarn", "spark.ui.enabled": "true", "spark.executorEnv.A": "theirs"}
    found = submitted_properties(load("spark.conf.spark.executorEnv.A=ours", "spark.conf.spark.x=ours"), given)
    assert not found.keys() & given.keys()
    assert found["spark.x"] == "ours"
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_what_a_jvm_is_started_with_is_left_to_spark_submit():
    found = submitted_properties(load("spark.jars=nowhere"), {})
    assert not found.keys() & {"spark.jars", "spark.driver.memory", "spark.driver.extraJavaOptions", "spark.master"}


def test_a_cluster_has_no_say_in_state_partitions_and_secrets(caplog):
    settings = load("enforce.state_partitions=3", "storage.options.fs.x=mine")
    given = {PARTITIONS: "200", "spark.hadoop.fs.x": "theirs", "spark.redaction.regex": "shy"}
    found = submitted_properties(settings, given)
    assert found[PARTITIONS] == "3"
    assert found["spark.hadoop.fs.x"] == "mine"
    assert found["spark.redaction.regex"].endswith(r"|spark\.hadoop\.fs\.x|shy")
    assert f"{PARTITIONS}=200 does not count; enforce.state_partitions=3 does" in caplog.text


def test_a_setting_goes_before_what_was_measured_also_where_spark_submit_was_given_that_file():
    found = submitted_properties(load("spark.conf.spark.ui.enabled=true"), measured())
    assert found["spark.ui.enabled"] == "true"


def test_a_spark_that_the_jobs_start_keeps_state_partitions_and_secrets_too(caplog):
    settings = load(f"spark.conf.{PARTITIONS}=8", "spark.conf.spark.redaction.regex=shy", "storage.options.fs.x=mine")
    found = spark_properties(settings)
    assert found[PARTITIONS] == "2"
    assert found["spark.redaction.regex"].endswith(r"|spark\.hadoop\.fs\.x|shy")
    assert f"{PARTITIONS}=8 does not count" in caplog.text


def test_where_nothing_is_contradicted_nothing_is_said(caplog):
    submitted_properties(load(), {PARTITIONS: "2"})
    assert not caplog.text
