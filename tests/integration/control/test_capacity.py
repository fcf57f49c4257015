"""The probe of a controller's capacity leaves nothing on a real cluster, whether it ends or is interrupted."""

import signal
import subprocess

from tests.support.deployment import as_options
from tests.support.programs import command_line
from tests.support.topics import admin_of
from tests.support.waiting import until


def probes(settings):
    """Return the topics of probes on the cluster."""
    return {name for name in admin_of(settings).list_topics(timeout=30).topics if "mutation-quota-capacity" in name}


def test_a_probe_measures_both_rates_and_deletes_its_topics(command, deployment):
    measured = command("capacity", "--partitions", "45", "--yes", "--output", "json")
    assert measured["partitions"] == 45
    assert measured["capacity"] == min(measured["creations_per_second"], measured["deletions_per_second"]) > 0
    assert probes(deployment) == set()


def test_ctrl_c_deletes_the_topics_of_a_probe(deployment, tmp_path):
    words = command_line(*as_options(deployment), "capacity", "--partitions", "5000", "--yes")
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as probe:
        try:
            until(lambda: probes(deployment), 60)
            probe.send_signal(signal.SIGINT)
            _, said = probe.communicate(timeout=120)
        finally:
            probe.kill()
    assert probe.returncode == 130
    assert said.splitlines()[-1] == "mutation-quota: interrupted; the topics of the probe were deleted"
    assert probes(deployment) == set()
