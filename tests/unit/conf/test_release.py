"""A release: the same bytes from the same source, and a wheel that works on its own, without Spark, pandas and Java."""

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

from conf.release.__main__ import release_notes
from conf.release.distributions import build
from conf.release.jar_wheels import EXTRAS, write_jar_wheel
from conf.release.packing import required_distributions
from conf.release.sbom import write_sbom
from tests.support.checkout import CHECKOUT

EPOCH = 1_790_000_000  # 2026-09-21 14:13:20
BASE_MEGABYTES = 60


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(CHECKOUT, tmp_path_factory.mktemp("release"), EPOCH)


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


def test_the_wheel_has_all_modules_and_their_data_files(wheel):
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if ".dist-info/" not in name}
    modules = {str(file.relative_to(CHECKOUT)) for part in ("jobs", "quota", "schemas") for file in modules_of(part)}
    read = {f"jobs/conf/{name}" for name in ("fair-scheduler.xml", "log4j2.properties", "spark-defaults.conf")}
    assets = {
        str(file.relative_to(CHECKOUT))
        for kind in ("html", "css", "js", "svg", "txt")
        for file in modules_of("jobs", kind)
    }
    schemas = {str(file.relative_to(CHECKOUT)) for file in modules_of("schemas", "json")}
    assert names == modules | read | assets | schemas | {
        "jobs/observe/example.log.gz",
        "jobs/sandbox/bootstrap.checkpoint",
        "quota/wire/messages.json",
    }


def modules_of(package, kind="py"):
    return (CHECKOUT / package).rglob(f"*.{kind}")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel into an empty environment, with links to what it needs here: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for needed in required_distributions(metadata(wheel), extra=None):
        for name in {Path(file).parts[0] for file in needed.files} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(needed.locate_file(name))
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-compile", "--disable-pip-version-check", wheel], check=True)
    return folder


def use(environment, folder):
    """Return a function that runs a program of an environment in an empty folder, where Java fails a test."""
    java, work = folder / "java-was-started", folder / "work"
    (folder / "bin").mkdir()
    (folder / "bin/java").write_text(f"#!/bin/sh\ntouch {java}\nexit 1\n")
    (folder / "bin/java").chmod(0o755)
    work.mkdir()

    def run(program, *args, status=0):
        variables = {"PATH": f"{folder / 'bin'}", "HOME": str(folder / "home")}
        command = [environment / "bin" / program, *args]
        done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert not java.exists()
        return done.stdout + done.stderr

    return run, work


@pytest.fixture
def base(installed, tmp_path):
    return use(installed, tmp_path)


def check(run, work):
    """Run what a base installation is for."""
    printed = run("mutation-quota", "observe", "import", "--example", "--output-file", "requests.jsonl")
    assert "383 requests to create topics: 18,450 mutations" in printed
    printed = run("mutation-quota", "recommend", "--capacity", "20", "--requests", "requests.jsonl")
    assert re.search(r"^user-principal 'rogue' +12,000 +29\.4 +7\.17 ", printed, re.MULTILINE)
    (work / "q.yaml").write_text("quotas:\n- {entity: {user: rogue}, controller_mutation_rate: 5}\n")
    # The loop's first request of 60 mutations overdraws a burst of 55 with its last topic.
    printed = run("mutation-quota", "simulate", "requests.jsonl", "--quotas", "q.yaml", "--output", "table")
    loop = [line.split()[2:] for line in printed.splitlines() if " rogue / loop " in line]
    assert loop[0] == ["rogue", "/", "loop", "ADMITTED", "(shadow)", "-5.0", "0", "s"]
    printed = run("mutation-quota", "backtest", "--requests", "requests.jsonl", "--candidate", "name=5,quotas=q.yaml")
    assert "without quotas" in printed
    assert re.search(
        r"^Spark +not installed\nDelta +not installed\nKafka +[\d.]+ \(gateway\), not installed",
        run("mutation-quota", "--version"),
        re.MULTILINE,
    )
    assert sorted(path.name for path in work.iterdir()) == ["q.yaml", "requests.jsonl"]
    assert not (work.parent / "home").exists()
    modules = "typer pyspark pandas pyarrow numpy"
    code = f"from importlib.util import find_spec; print(*filter(find_spec, '{modules}'.split()))"
    assert run("python", "-c", code) == "typer\n"


def test_the_base_wheel_works_in_an_empty_folder_without_spark_pandas_and_java(base):
    check(*base)


def test_the_clients_and_the_gateway_start_as_far_as_kafka_is_needed(base):
    run, _ = base
    server = ("--bootstrap-server", "127.0.0.1:1", "--set", "kafka.timeout_seconds=0.5")
    assert "cannot read the addresses that 127.0.0.1:1 advertises" in run(
        "mutation-quota", "gateway", *server, status=1
    )
    assert "quotas" in run("mutation-quota", "quotas", "push", "--dry-run", *server, status=1)
    run("python", "-c", "from quota.kafka.admin.client import QuotaAdminClient")


@pytest.mark.parametrize(
    ("command", "problem", "extras"),
    [
        ("run", "run needs more than is installed", ["spark", "broker"]),
        ("broker", "the jars for broker are not installed", ["broker"]),
        ("enforce", "this needs pyspark, which is not installed", ["spark"]),
    ],
)
def test_a_command_says_how_to_install_what_it_needs(base, wheel, command, problem, extras):
    run, work = base
    jars = [wheel.parent / f"kafka_mutation_quota_{extra}_jars-0.1.0-py3-none-any.whl" for extra in extras]
    install = shlex.join(map(str, ["pip", "install", f"{wheel}[{','.join(extras)}]", *jars]))
    assert run("mutation-quota", command, status=2) == f"mutation-quota: {problem}; {install}\n"
    assert list(work.iterdir()) == []


def test_pip_asks_no_index_for_packages_of_this_project(base, installed, wheel, tmp_path):
    """It does what a command says; and the image, which names the files as constraints. Any question would fail."""
    run, _ = base
    (tmp_path / "1.jar").write_bytes(b"jar")
    jars = write_jar_wheel(wheel.parent, "broker", "0.1.0", tmp_path, EPOCH)
    said = run("mutation-quota", "broker", status=2).partition("; pip install ")[2]
    (tmp_path / "constraints.txt").write_text(
        f"kafka_mutation_quota_broker_jars @ file://{jars}\nkafka_mutation_quota @ file://{wheel}\n"
    )
    of_image = ["--constraint", tmp_path / "constraints.txt", f"{wheel}[broker]"]
    for wanted in (shlex.split(said), of_image):
        pip = [sys.executable, "-m", "pip", "--python", installed / "bin/python", "install", "--dry-run"]
        pip += ["--index-url", "http://127.0.0.1:1", "--retries", "0", "--disable-pip-version-check", "--no-input"]
        done = subprocess.run([*pip, *wanted], capture_output=True, text=True, check=False)
        assert "Would install kafka-mutation-quota-broker-jars-0.1.0" in done.stdout, done.stderr
        assert "127.0.0.1" not in done.stderr


def test_the_base_installation_is_small(installed):
    files = {path.resolve() for path in installed.glob("lib/python*/site-packages/*")}
    sizes = [file.stat().st_size for path in files for file in ([path] if path.is_file() else path.rglob("*.*"))]
    assert BASE_MEGABYTES / 2 < sum(sizes) / 1_000_000 < BASE_MEGABYTES


@pytest.mark.nightly
def test_pip_resolves_and_installs_the_base_wheel(wheel, tmp_path):
    """Needs a package registry."""
    venv.create(tmp_path / "environment", with_pip=True, symlinks=True)
    pip = [tmp_path / "environment/bin/pip", "install", "--quiet", "--constraint", CHECKOUT / "conf/constraints.txt"]
    subprocess.run([*pip, wheel], check=True)
    check(*use(tmp_path / "environment", tmp_path))


def test_the_same_source_gives_the_same_bytes_whatever_the_umask_and_the_time_are(wheel, tmp_path):
    umask = os.umask(0o077)
    try:
        again = build(CHECKOUT, tmp_path, EPOCH)
    finally:
        os.umask(umask)
    assert again.read_bytes() == wheel.read_bytes()
    (sdist,) = wheel.parent.glob("*.tar.gz")
    assert (tmp_path / sdist.name).read_bytes() == sdist.read_bytes()
    with tarfile.open(sdist) as archive:
        assert {member.mtime for member in archive} == {EPOCH}
        assert "kafka_mutation_quota-0.1.0/quota/wire/messages.json" in archive.getnames()


def test_jars_are_installed_as_packages(tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars/a-1.jar").write_bytes(b"jar")
    wheel = write_jar_wheel(tmp_path, "s3", "0.1.0", tmp_path / "jars", EPOCH)
    first = wheel.read_bytes()
    assert write_jar_wheel(tmp_path, "s3", "0.1.0", tmp_path / "jars", EPOCH).read_bytes() == first
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", tmp_path / "to", wheel], check=True)
    names = {str(file.relative_to(tmp_path / "to")) for file in (tmp_path / "to").rglob("*") if file.is_file()}
    info = "kafka_mutation_quota_s3_jars-0.1.0.dist-info"
    assert {"kafka_mutation_quota_s3_jars/__init__.py", "kafka_mutation_quota_s3_jars/a-1.jar"} <= names
    assert {f"{info}/METADATA", f"{info}/RECORD", f"{info}/WHEEL"} <= names


def test_an_extra_requires_its_jars_in_the_version_of_the_project(wheel):
    project = metadata(wheel)
    required = project.get_all("Requires-Dist")
    for extra in EXTRAS:
        jars = f"kafka-mutation-quota-{extra}-jars=={project['Version']}"
        assert f'{jars}; extra == "{extra}"' in required


def test_the_sbom_names_packages_and_jars_as_their_registries_do(wheel, tmp_path):
    for name in ("spark/delta-storage-4.4.0.jar", "broker/kafka-clients-4.2.1.jar"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"jar")
    (tmp_path / "broker/dependencies.txt").write_text("   org.apache.kafka:kafka-clients:jar:4.2.1:runtime\n")
    write_sbom(tmp_path / "sbom.json", wheel, tmp_path, EPOCH)
    bom = json.loads((tmp_path / "sbom.json").read_text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    assert bom["metadata"]["timestamp"] == "2026-09-21T14:13:20Z"
    assert bom["metadata"]["component"]["purl"] == "pkg:pypi/kafka-mutation-quota@0.1.0"
    components = {component["purl"]: component for component in bom["components"]}
    assert {"pkg:pypi/pyspark@4.2.0", "pkg:pypi/typing-extensions@4.16.0"} <= components.keys()
    assert "pkg:pypi/pytest@9.2.0" not in components
    assert "pkg:maven/io.delta/delta-storage@4.4.0" in components
    clients = components["pkg:maven/org.apache.kafka/kafka-clients@4.2.1"]
    # printf jar | sha256sum
    assert clients["hashes"][0]["content"] == "0163f1eea7894350060624d315234d40c508ab251ba121714e234503045faadd"
    versions = dict(re.findall(r"^(\S+)==(\S+)", (CHECKOUT / "conf/constraints.txt").read_text(), re.MULTILINE))
    named = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in versions.items()}
    pypi = [purl.removeprefix("pkg:pypi/").split("@") for purl in components if purl.startswith("pkg:pypi/")]
    assert {name: named[name] for name, _ in pypi} == dict(pypi)


def test_release_notes_are_the_section_of_the_version():
    changelog = "# Changelog\n\n## 0.2.0, 2027-01-02\n\n- new\n\n## 0.1.0\n\n- first\n"
    assert release_notes(changelog, "0.2.0") == "## 0.2.0, 2027-01-02\n\n- new\n"
    assert release_notes(changelog, "0.1.0") == "## 0.1.0\n\n- first\n"
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md has no section 0\.3\.0"):
        release_notes(changelog, "0.3.0")
