"""A release installed with its extras into environments of their own, as a new user does it."""

import os
import signal
import subprocess
import venv
from contextlib import ExitStack

import pytest

from conf.release.__main__ import main
from jobs.sandbox.broker import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """The folder of a release; it needs the jars for S3."""
    folder = tmp_path_factory.mktemp("release")
    main(folder)
    return folder


def install(release, environment, extras):
    """Install the wheel with extras, which have jars, as the page says, and return the pip of the new environment."""
    (wheel,) = release.glob("kafka_mutation_quota-*.whl")
    jars = [jar for extra in extras.split(",") for jar in release.glob(f"kafka_mutation_quota_{extra}_jars-*.whl")]
    venv.create(environment, with_pip=True, symlinks=True)
    pip, constraints = environment / "bin/pip", release / "constraints.txt"
    command = [pip, "install", "--quiet", "--constraint", constraints, f"{wheel}[{extras}]", *jars]
    subprocess.run(command, check=True)
    return pip


def variables(tmp_path):
    """Return the environment of a user who has only this installation."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG", "MUTATION", "KAFKA"))}
    return kept | {"HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": "1"}


def test_the_gateway_and_the_commands_run_beside_the_broker_without_spark(release, tmp_path):
    environment, work = tmp_path / "environment", tmp_path / "work"
    install(release, environment, "broker")
    work.mkdir()
    given = {"cwd": work, "env": variables(tmp_path), "text": True}

    def started(stack, *args):
        program = [environment / "bin/mutation-quota", *args]
        process = stack.enter_context(
            subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **given)
        )
        stack.callback(process.send_signal, signal.SIGINT)
        return next(line.split()[1] for line in process.stdout if line.startswith("ready "))

    with ExitStack() as stack:
        broker = started(stack, "broker", "--port", "0")
        gateway = started(stack, "gateway", "--bootstrap-server", broker, "--set", f"gateway.first_port={free_port()}")
        script = f"""
from quota.kafka.admin import QuotaAdminClient
with QuotaAdminClient({{"bootstrap.servers": "{broker}"}}) as admin:
    print(*sorted(admin.list_topics(timeout=30).topics))
"""
        done = subprocess.run([environment / "bin/python", "-c", script], capture_output=True, check=True, **given)
        assert {"mutation-decisions", "mutation-requests"} <= set(done.stdout.split())
        listed = [environment / "bin/mutation-quota", "topics", "list", "--bootstrap-server", gateway, "-o", "json"]
        done = subprocess.run(listed, capture_output=True, check=True, **given)
        assert '"mutation-requests"' in done.stdout
    assert not list(environment.glob("lib/python*/site-packages/py[sa][pr]*"))  # neither PySpark nor Arrow


def test_a_release_runs_the_worked_example_in_an_empty_folder_and_leaves_nothing(release, tmp_path):
    environment, work = tmp_path / "environment", tmp_path / "work"
    assert max(wheel.stat().st_size for wheel in release.glob("*.whl")) < 100_000_000
    pip = install(release, environment, "spark,broker,s3")
    work.mkdir()
    command = [environment / "bin/mutation-quota", "demo"]
    done = subprocess.run(command, cwd=work, env=variables(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "all results match KIP-599" in done.stdout
    assert list(work.iterdir()) == []
    jars = [f"kafka-mutation-quota-{extra}-jars" for extra in ("spark", "broker", "s3")]
    subprocess.run([pip, "uninstall", "--quiet", "--yes", "kafka-mutation-quota", *jars], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    assert [path.name for path in packages.iterdir() if "mutation" in path.name] == []
    assert {"jobs", "quota", "schemas"}.isdisjoint(path.name for path in packages.iterdir())
