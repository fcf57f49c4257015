"""The ports and the folders of the nodes of an embedded cluster."""

from pathlib import Path

import pytest

from jobs.sandbox.cluster import Cluster
from quota.errors import BadInput


def test_nodes_follow_the_first_port(tmp_path):
    assert Cluster(tmp_path, Path("jars"), 3, 9092).address == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"


def test_ports_above_the_last_one_are_rejected(tmp_path):
    with pytest.raises(BadInput, match="3 nodes from port 65534 on need ports above 65535; choose a lower --port"):
        Cluster(tmp_path, Path("jars"), 3, 65534)


def test_the_data_of_a_cluster_of_a_different_size_is_rejected(tmp_path):
    for number in (1, 2, 3):
        (tmp_path / f"node-{number}").mkdir()
    with pytest.raises(BadInput, match="contains a cluster of 3 nodes, not 5; choose another folder with --data"):
        Cluster(tmp_path, Path("jars"), 5)
    assert len(Cluster(tmp_path, Path("jars"), 3).nodes) == 3
