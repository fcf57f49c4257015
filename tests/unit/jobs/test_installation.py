"""The files of the installation that are not Python: jars and Java, and what is said if they are missing."""

import json
import shlex

import pytest

from jobs import installation
from jobs.installation import check_extras, jars_folder, java_program, missing_package, spark_jars
from quota.errors import BadInput


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Pretend to be installed, with packages of jars: a function that installs one."""
    monkeypatch.setattr(installation, "_CHECKOUT", False)
    monkeypatch.syspath_prepend(tmp_path)

    def install(extra, *jars):
        package = tmp_path / f"kafka_mutation_quota_{extra}_jars"
        package.mkdir()
        for name in ("__init__.py", *jars):
            (package / name).touch()
        return package

    return install


def rejection(function, *args, **options):
    with pytest.raises(BadInput) as raised:
        function(*args, **options)
    return str(raised.value)


def test_a_folder_without_jars_is_named_with_its_setting(tmp_path):
    rest = "to a folder with jars, or remove it for those installed"
    assert rejection(spark_jars, str(tmp_path)) == f"no jars in {tmp_path}; set spark.jars {rest}"
    assert rejection(jars_folder, str(tmp_path)) == f"no jars in {tmp_path}; set broker.jars {rest}"


def test_a_checkout_without_jars_names_the_target_of_make(tmp_path, monkeypatch):
    monkeypatch.setattr(installation, "_CHECKOUT", True)
    monkeypatch.setattr(installation, "_ROOT", tmp_path)
    assert rejection(jars_folder, "") == f"no jars in {tmp_path}/.jars/broker; run make jars"
    (tmp_path / ".jars/spark").mkdir(parents=True)
    (tmp_path / ".jars/spark/delta.jar").touch()
    assert rejection(spark_jars, "", s3=True) == f"no jars in {tmp_path}/.jars/s3; run make jars S3=1"


def test_jars_are_those_of_installed_packages(installed):
    spark = installed("spark", "b.jar", "a.jar")
    assert spark_jars("") == [spark / "a.jar", spark / "b.jar"]
    assert "jars for s3 are not installed" in rejection(spark_jars, "", s3=True)
    check_extras("enforce", "spark")
    s3 = installed("s3", "c.jar")
    assert spark_jars("") == spark_jars("", s3=True) == [spark / "a.jar", spark / "b.jar", s3 / "c.jar"]


def test_a_missing_package_is_named_with_its_extra():
    missing = ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")
    assert str(missing_package(missing)) == "this needs pyspark, which is not installed; run make setup"
    assert missing_package(ModuleNotFoundError("No module named 'other'", name="other")) is None
    assert missing_package(ValueError("pyspark")) is None


@pytest.mark.parametrize(
    ("origin", "is_known"),
    [
        ("{folder}/of it/kafka_mutation_quota-9.9-py3-none-any.whl", True),
        ("{folder}/gone/kafka_mutation_quota-9.9-py3-none-any.whl", False),
        ("{folder}/of it", False),  # a clone
        (None, False),  # an index, or --find-links, which pip does not record
    ],
)
def test_extras_are_installed_from_where_the_installation_is_from(installed, tmp_path, origin, is_known):
    """Never by name alone, under which an index may have somebody else's package."""
    del installed
    (tmp_path / "of it").mkdir()
    (tmp_path / "of it/kafka_mutation_quota-9.9-py3-none-any.whl").touch()
    info = tmp_path / "kafka_mutation_quota-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: kafka-mutation-quota\nVersion: 9.9\n")
    if origin:
        url = "file://" + origin.format(folder=tmp_path).replace(" ", "%20")
        (info / "direct_url.json").write_text(json.dumps({"url": url}))
    said = rejection(check_extras, "run", "spark", "broker", "certificates")
    stem = f"{tmp_path}/of it/kafka_mutation_quota"
    assert said.startswith("run needs more than is installed; ")
    if is_known:
        assert shlex.split(said.partition("; ")[2]) == [
            "pip",
            "install",
            f"{stem}-9.9-py3-none-any.whl[spark,broker,certificates]",
            f"{stem}_spark_jars-9.9-py3-none-any.whl",
            f"{stem}_broker_jars-9.9-py3-none-any.whl",
        ]
    else:
        assert said.endswith(
            "install it from the files of its release with the extra [spark,broker,certificates]: "
            "docs/how-to/install.md"
        )


@pytest.mark.parametrize("release", ["17.0.15", "25"])
def test_java_of_a_supported_version_is_found(tmp_path, monkeypatch, release):
    (tmp_path / "release").write_text(f'IMPLEMENTOR="Any"\nJAVA_VERSION="{release}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_program() == tmp_path / "bin" / "java"


def test_java_that_is_too_old_or_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "release").write_text('JAVA_VERSION="1.8.0_412"\n')
    needed = "and Java 17 or newer is needed; install it, or set JAVA_HOME"
    assert rejection(java_program) == f"{tmp_path}/bin/java is Java 8, {needed}"
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.25"\n')
    assert rejection(java_program) == f"{tmp_path}/bin/java is Java 11, {needed}"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rejection(java_program) == "no Java found; install Java 17 or newer (a JRE is enough), or set JAVA_HOME"
