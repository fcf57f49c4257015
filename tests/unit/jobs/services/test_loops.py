"""Services that wait for a cluster that does not answer when they start."""

import signal
import socket
import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", [["applier"], ["observe", "follow", "requests.log"], ["gateway"]])
def test_a_service_is_interrupted_during_its_start_as_any_other_command(command, tmp_path):
    """There is nothing to finish yet, and it must not wait for the cluster."""
    (tmp_path / "requests.log").touch()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        started = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jobs",
                *command,
                "--bootstrap-server",
                address,
                "--set",
                "kafka.timeout_seconds=60",
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with started:
            connected, _ = silent.accept()
            started.send_signal(signal.SIGINT)
            try:
                assert started.communicate(timeout=10) == (b"", b"")
            finally:
                started.kill()
                connected.close()
    assert started.returncode == 130
