"""The dashboard as a process, and the signal that stops it."""

import signal
import subprocess

from tests.support.programs import command_line


def test_ctrl_c_stops_it_even_if_a_script_started_it_in_the_background(tmp_path):
    """A shell that runs a script has the commands that it starts with `&` ignore SIGINT."""
    options = ("--port", "0", "--set", "kafka.bootstrap_servers=127.0.0.1:1", "--set", "kafka.timeout_seconds=0.1")
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command_line("dashboard", *options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            assert process.stdout.readline().startswith("dashboard at http://")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
