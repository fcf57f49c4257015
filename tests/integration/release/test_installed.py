"""A release installed with Spark and the broker into an environment of its own, as a new user does it."""

import os
import subprocess
import venv

import pytest

from conf.release.__main__ import main

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


def test_a_release_runs_the_worked_example_in_an_empty_folder_and_leaves_nothing(tmp_path):
    """Needs a package registry, and the jars for S3."""
    release, environment, work = tmp_path / "release", tmp_path / "environment", tmp_path / "work"
    main(release)
    assert max(wheel.stat().st_size for wheel in release.glob("*.whl")) < 100_000_000
    (wheel,) = release.glob("kafka_mutation_quota-*.whl")
    venv.create(environment, with_pip=True, symlinks=True)
    pip, constraints = environment / "bin/pip", release / "constraints.txt"
    options = ["--quiet", "--find-links", release, "--constraint", constraints]
    subprocess.run([pip, "install", *options, f"{wheel}[spark,broker,s3]"], check=True)
    work.mkdir()
    variables = {**os.environ, "HOME": str(tmp_path / "home")}
    variables.pop("XDG_DATA_HOME", None)
    command = [environment / "bin/mutation-quota", "demo"]
    done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "all results match KIP-599" in done.stdout
    assert list(work.iterdir()) == []
    jars = [f"kafka-mutation-quota-{extra}-jars" for extra in ("spark", "broker", "s3")]
    subprocess.run([pip, "uninstall", "--quiet", "--yes", "kafka-mutation-quota", *jars], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    assert [each.name for each in packages.iterdir() if "mutation" in each.name] == []
    assert {"jobs", "quota", "schemas"}.isdisjoint(each.name for each in packages.iterdir())
