"""The lines that `run` prints, and the ports that it uses instead of those in use."""

import socket
import threading
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from jobs.audit import upkeep_schedule
from jobs.metrics.totals import DecisionTotals
from jobs.sandbox import run
from jobs.sandbox.broker import HOST, free_port, is_listening
from jobs.sandbox.run import (
    embedded_gateway,
    interrupted_after,
    poll_client,
    run_everything,
    running_queries,
    starting_line,
    totals_line,
)
from quota.algorithms.token_bucket import TokenBucket
from quota.records.quota_log import Window
from quota.settings import load_settings
from tests.support.factories import START, decide_all, resolved
from tests.support.waiting import until


class Client:
    """An unmodified client that has always something to say."""

    name = "kafka-topics.sh"

    def poll(self, _):
        return "--create: done"


def totals_of(*requests):
    totals = DecisionTotals(Window(), 10)
    _, decisions = decide_all(*requests, algorithm=TokenBucket(Window()))
    for decision in decisions:
        totals.record(decision, START)
    return totals


def test_a_line_has_the_totals_of_all_decisions():
    """At Q = 5 and B = 55: 55 - 60 = -5, so the second request is rejected."""
    totals = totals_of(resolved(60, at=START, offset=0), resolved(1500, at=START + 1, offset=1))

    assert totals_line(totals) == "2 decisions; mutations: 60 admitted, 1,500 rejected; dead letters: 0"
    assert totals_line(totals, 15.2).endswith("; dead letters: 0; none for 15 s")
    assert totals_line(totals_of(), 15.2) == "0 decisions; mutations: 0 admitted, 0 rejected; dead letters: 0"


def test_before_the_first_decision_a_line_tells_how_long_that_usually_takes():
    assert starting_line(12.3) == (
        "starting: no decision for 12 s; the first ones come about 20 s after Spark's start, or a minute and more on a "
        "busy machine"
    )


@pytest.mark.usefixtures("interruptible")
def test_what_does_not_stop_in_time_after_ctrl_c_is_interrupted_which_is_no_error():
    """Such as the first batch of a busy machine, for which a query would wait for half a minute."""
    seen = []
    with interrupted_after(0.05) as limit_stop:
        limit_stop()
        seen.append("stopping")
        threading.Event().wait(30)
        seen.append("stopped after 30 s")
    assert seen == ["stopping"]


def test_a_second_ctrl_c_while_everything_stops_is_one():
    with pytest.raises(KeyboardInterrupt), interrupted_after(30):
        raise KeyboardInterrupt


def test_clients_start_with_the_first_decision_and_their_output_is_a_line(capsys):
    poll_client(Client(), totals_of())
    assert capsys.readouterr().out == ""

    poll_client(Client(), totals_of(resolved(1, at=START, offset=0)))
    assert capsys.readouterr().out == "kafka-topics.sh --create: done\n"


class Started(Exception):
    """What is raised instead of starting a broker, with its port."""


def broker_port(monkeypatch, kafkas):
    """Return the port on which `run` starts its broker, where Kafka's port is `kafkas`."""

    @contextmanager
    def embedded_broker(_, port):
        raise Started(port)
        yield

    monkeypatch.setattr(run, "_PORT", kafkas)
    monkeypatch.setattr(run, "embedded_broker", embedded_broker)
    with pytest.raises(Started) as started:
        run_everything(load_settings(environment={}, with_default_file=False))
    return started.value.args[0]


def test_a_broker_whose_port_is_in_use_gets_another_which_is_printed_for_other_commands(
    port_in_use, monkeypatch, capsys
):
    port = broker_port(monkeypatch, port_in_use)
    assert not is_listening(port)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"port {port_in_use} is in use; before you use other commands:",
        f"  export KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:{port}",
    ]


def test_a_broker_has_kafkas_port_if_it_is_free(monkeypatch, capsys):
    port = free_port()
    assert broker_port(monkeypatch, port) == port
    assert capsys.readouterr().out == "starting a broker\n"


def gateway_address(monkeypatch, first_port):
    """Return the address of the gateway of `run`, which only listens, where `gateway.first_port` is given."""

    async def serve_gateway(settings, stopping, _):
        with stopping as stop, socket.create_server((settings.gateway.address, settings.gateway.first_port)):
            stop.wait()

    monkeypatch.setattr(run, "serve_gateway", serve_gateway)
    settings = load_settings([f"gateway.first_port={first_port}"], environment={}, with_default_file=False)
    with embedded_gateway(settings) as (address, check):
        check()
        return address


def test_a_gateway_whose_port_is_in_use_listens_on_another(port_in_use, monkeypatch):
    """Its address is in the line that `run` prints when everything has started."""
    free = free_port()
    assert gateway_address(monkeypatch, free) == f"127.0.0.1:{free}"
    another = gateway_address(monkeypatch, port_in_use)
    assert another.startswith("127.0.0.1:")
    assert another != f"127.0.0.1:{port_in_use}"


@pytest.fixture
def failing_gateway(monkeypatch):
    """Make the gateway's thread end with an error of the system, at once or after it has listened."""

    def _failing_gateway(*, listens):
        async def serve_gateway(settings, *_):
            if listens:
                with socket.create_server((HOST, settings.gateway.first_port)) as server:
                    server.accept()[0].close()
            raise OSError("too many open files")

        monkeypatch.setattr(run, "serve_gateway", serve_gateway)
        return load_settings([f"gateway.first_port={free_port()}"], environment={}, with_default_file=False)

    return _failing_gateway


def test_any_error_of_a_gateway_that_does_not_start_is_raised_at_once(failing_gateway):
    with pytest.raises(OSError, match="too many open files"), embedded_gateway(failing_gateway(listens=False)):
        pass


def test_any_later_error_of_the_gateway_is_raised_by_the_next_check(failing_gateway):
    with embedded_gateway(failing_gateway(listens=True)) as (_, check), pytest.raises(OSError, match="open files"):
        until(check)


def test_upkeep_is_interrupted_before_the_queries_are_stopped(base_settings, monkeypatch):
    """A stop would wait for the batch within which it runs."""
    stops = []
    monkeypatch.setattr(run, "start_queries", lambda *_: [])
    monkeypatch.setattr(run, "observing", lambda *_: lambda: None)
    upkeeps = upkeep_schedule._stops  # noqa: SLF001
    monkeypatch.setattr(run, "stop_after_batch", lambda _: stops.extend(stop.is_set() for stop in upkeeps))
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: None))
    endpoint = SimpleNamespace(following=lambda *_, **__: nullcontext())
    with running_queries(SimpleNamespace(settings=base_settings, spark=spark), endpoint) as check:
        check()
    assert stops == [True]
