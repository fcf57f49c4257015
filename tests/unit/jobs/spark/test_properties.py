"""Spark's properties: those of spark-submit, of the settings, and the measured defaults."""

from itertools import starmap

import pytest

from jobs.spark.properties import spark_defaults, spark_properties, submitted_properties
from quota.errors import BadInput
from quota.settings import load_settings

PARTITIONS = "spark.sql.shuffle.partitions"


def load(*overrides):
    return load_settings(overrides, environment={}, with_default_file=False)


def test_measured_properties_are_in_the_file_for_spark_submit():
    defaults = spark_defaults()
    assert all(starmap(lambda name, value: name.startswith("spark.") and value == value.strip(), defaults.items()))
    assert defaults["spark.sql.session.timeZone"] == "UTC"
    assert spark_properties(load()).items() >= defaults.items()


def test_options_of_spark_submit_override_settings_and_measured_properties():
    given = {"spark.master": "yarn", "spark.ui.enabled": "true", "spark.executorEnv.A": "theirs"}
    conf = submitted_properties(load("spark.conf.spark.executorEnv.A=ours", "spark.conf.spark.x=ours"), given)
    assert not conf.keys() & given.keys()
    assert conf["spark.x"] == "ours"
    assert conf["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize("root", ["/shared/quotas", "s3a://bucket/quotas"])
def test_a_driver_in_a_cluster_needs_a_root_that_outlives_its_working_folder(root):
    given = {"spark.submit.deployMode": "cluster"}
    with pytest.raises(BadInput, match=r"^storage.root=.data is on the machine of the driver"):
        submitted_properties(load("storage.root=.data"), given)
    with pytest.raises(BadInput, match="is on the machine of the driver"):
        submitted_properties(load(), given)
    assert submitted_properties(load(f"storage.root={root}"), given)
    assert submitted_properties(load("storage.root=.data"), {"spark.submit.deployMode": "client"})


@pytest.mark.parametrize("submitted", [True, False])
def test_neither_a_cluster_nor_a_setting_overrides_state_partitions_and_secrets(caplog, submitted):
    settings = ["enforce.state_partitions=3", "storage.options.fs.x=mine"]
    given = {PARTITIONS: "200", "spark.hadoop.fs.x": "theirs", "spark.redaction.regex": "shy"}
    if submitted:
        conf = submitted_properties(load(*settings), given)
    else:
        conf = spark_properties(load(*settings, *(f"spark.conf.{name}={value}" for name, value in given.items())))
    assert conf[PARTITIONS] == "3"
    assert conf["spark.hadoop.fs.x"] == "mine"
    assert conf["spark.redaction.regex"].endswith(r"|spark\.hadoop\.fs\.x|shy")
    assert f"{PARTITIONS}=200 is ignored; enforce.state_partitions=3 applies" in caplog.text
    caplog.clear()
    submitted_properties(load(*settings), {PARTITIONS: "3"})
    assert not caplog.text


LOCAL_FILES, CLASS_PATH = "spark.hadoop.fs.file.impl", "spark.driver.extraClassPath"
HADOOPS = "org.apache.hadoop.fs.LocalFileSystem"


@pytest.fixture
def jars(tmp_path):
    (tmp_path / "hadoop-bare-naked-local-fs-0.1.0.jar").touch()
    (tmp_path / "another.jar").touch()
    return tmp_path


def test_local_files_are_written_without_a_process_for_each(jars):
    conf = spark_properties(load(f"spark.jars={jars}"))
    assert conf[LOCAL_FILES] == "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
    assert conf[CLASS_PATH] == f"{jars}/another.jar:{jars}/hadoop-bare-naked-local-fs-0.1.0.jar"
    assert "spark.jars" not in conf
    (jars / "hadoop-bare-naked-local-fs-0.1.0.jar").unlink()
    custom = spark_properties(load(f"spark.jars={jars}"))
    assert (custom[LOCAL_FILES], custom[CLASS_PATH]) == (HADOOPS, f"{jars}/another.jar")


def test_a_configured_class_path_and_file_system_are_kept(jars):
    given = (f"spark.jars={jars}", f"spark.conf.{CLASS_PATH}=/mine.jar", f"spark.conf.{LOCAL_FILES}=mine.Files")
    conf = spark_properties(load(*given))
    assert conf[LOCAL_FILES] == "mine.Files"
    assert conf[CLASS_PATH] == f"{jars}/another.jar:{jars}/hadoop-bare-naked-local-fs-0.1.0.jar:/mine.jar"


def test_a_cluster_uses_hadoops_own_file_systems(jars):
    conf = spark_properties(load(f"spark.jars={jars}", "spark.master=spark://host:7077"))
    assert conf[LOCAL_FILES] == HADOOPS
    assert CLASS_PATH not in conf
    assert conf["spark.jars"] == f"{jars}/another.jar,{jars}/hadoop-bare-naked-local-fs-0.1.0.jar"


def test_further_options_of_a_jvm_follow_those_of_the_settings(jars):
    options = "spark.driver.extraJavaOptions"
    log4j, further = spark_properties(load(f"spark.jars={jars}"), java_options="-Xa")[options].split()
    assert log4j.startswith("-Dlog4j2.configurationFile=")
    assert further == "-Xa"
    given = load(f"spark.jars={jars}", f"spark.conf.{options}=-Xmine")
    assert spark_properties(given, java_options="-Xa")[options] == f"{log4j} -Xmine -Xa"


def test_executors_may_get_tokens_from_the_configured_token_server():
    """Kafka 4 rejects others, and the file of the settings does not exist there."""
    login = ["kafka.security_protocol=SASL_PLAINTEXT", "kafka.sasl_mechanism=OAUTHBEARER"]
    client = {"token_endpoint_url": "https://idp/token", "client_id": "enforce", "client_secret": "xyzzy"}
    login += [f"kafka.sasl_oauthbearer_{name}={value}" for name, value in client.items()]
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://idp/token"
    options = "spark.executor.extraJavaOptions"
    assert submitted_properties(load(*login), {options: "-Xtheirs"})[options] == f"{allowed} -Xtheirs"
    assert submitted_properties(load(*login), {})[options] == allowed
    assert options not in submitted_properties(load(), {})


def test_spark_submit_uses_hadoops_local_files_for_a_folder_because_hives_replace_none():
    conf = submitted_properties(load("storage.root=/shared"), {})
    assert (conf[LOCAL_FILES], conf[f"{LOCAL_FILES}.disable.cache"]) == (HADOOPS, "true")
    assert LOCAL_FILES not in submitted_properties(load("storage.root=/shared"), {LOCAL_FILES: "their.Files"})
    assert LOCAL_FILES not in submitted_properties(load("storage.root=s3a://bucket/root"), {})


CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
SNAPSHOTS = "spark.sql.streaming.stateStore.minDeltasForSnapshot"


def test_checkpoints_in_s3_are_written_without_renames_and_with_more_snapshots_unless_a_setting_says_otherwise(jars):
    (jars / "hadoop-aws-3.5.0.jar").touch()
    root = [f"spark.jars={jars}", "storage.root=s3a://bucket/root"]

    conf = spark_properties(load(*root))
    submitted = submitted_properties(load(*root), {})
    own = spark_properties(load(*root, f"spark.conf.{CHECKPOINT_FILES}=their.own"))

    assert conf[CHECKPOINT_FILES].endswith(".AbortableStreamBasedCheckpointFileManager")
    assert submitted[CHECKPOINT_FILES] == conf[CHECKPOINT_FILES]
    assert own[CHECKPOINT_FILES] == "their.own"
    assert int(submitted[SNAPSHOTS]) < int(submitted_properties(load(), {})[SNAPSHOTS])


def test_a_root_in_s3_without_its_jars_is_rejected(jars):
    with pytest.raises(BadInput, match=r"^s3a://bucket/root: there is no hadoop-aws-.* in .*, which spark.jars names$"):
        spark_properties(load(f"spark.jars={jars}", "storage.root=s3a://bucket/root"))


def test_with_json_and_only_then_the_jvm_and_the_workers_get_the_service_name(tmp_path):
    (tmp_path / "a.jar").touch()
    given = load(f"spark.jars={tmp_path}", "logging.format=json")
    conf = spark_properties(given, service="audit")
    assert conf["spark.driver.extraJavaOptions"].endswith(" -Dmutation-quota.log=json -Dmutation-quota.service=audit")
    assert conf["spark.executorEnv.MUTATION_QUOTA_JSON_LOG"] == "audit"
    assert submitted_properties(given, {}, service="audit")["spark.executorEnv.MUTATION_QUOTA_JSON_LOG"] == "audit"
    text = spark_properties(load(f"spark.jars={tmp_path}"), service="audit")
    assert "mutation-quota.log" not in text["spark.driver.extraJavaOptions"]
    assert "spark.executorEnv.MUTATION_QUOTA_JSON_LOG" not in text


def test_a_setting_overrides_measured_properties_even_if_spark_submit_got_that_file():
    conf = submitted_properties(load("spark.conf.spark.ui.enabled=true"), spark_defaults())
    assert conf["spark.ui.enabled"] == "true"
