"""`quotas push`, `pull` and `drift` on a real broker.

Its quotas are set and read by Kafka's own tool in the test of the page, and by requests in others.
"""

import json
import re
import shlex
import signal
import subprocess
import threading
from contextlib import contextmanager

import pytest

from jobs.sandbox.broker import free_port
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import QuotaWriter
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, QuotaRecord
from quota.wire.protocol import ApiKey
from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options, prepared_deployment
from tests.support.gateway import protocol
from tests.support.kafka_configs import client_quotas, kafka_configs, remove_all_quotas, set_quotas
from tests.support.monitoring import served_samples
from tests.support.programs import command_line, run
from tests.support.scripted_broker import ScriptedBroker
from tests.support.waiting import until

ALICE = QuotaEntity("alice")
RATE = "controller_mutation_rate"
SHADOW = "is in shadow, and not pushed, since brokers would enforce it"


@pytest.fixture(autouse=True)
def no_quotas(broker):
    """The cluster has no quotas but those of the test."""
    remove_all_quotas(broker.address, protocol())
    yield
    remove_all_quotas(broker.address, protocol())


@pytest.fixture
def wrote(deployment):
    """Return a function that writes quotas to the log of the test."""
    prepare_topics(deployment)
    return lambda *records: QuotaWriter(deployment).write(records)


@pytest.fixture
def quotas(deployment, tmp_path):
    """Return a function that runs a command of `quotas`, and returns what it printed, as JSON with --output json."""

    def _run(*args, exit_code=0, options=()):
        done = run(*as_options(deployment), *options, "quotas", *args, cwd=tmp_path)
        assert done.returncode == exit_code, done.stdout + done.stderr
        return json.loads(done.stdout) if "json" in args else (done.stdout.splitlines(), done.stderr.splitlines())

    return _run


def rates(address):
    """Return the rates of all entities; other quotas are omitted."""
    return {entity: configs[RATE] for entity, configs in client_quotas(address, protocol()).items() if RATE in configs}


def test_quotas_of_the_log_are_set_on_the_cluster_and_nothing_else_is_touched(broker, wrote, quotas):
    """Names of any Unicode, defaults, and the same twice; what else a client may be limited by stays."""
    address = broker.address
    set_quotas(address, protocol(), {"users": "alice"}, producer_byte_rate=1000, controller_mutation_rate=1)
    set_quotas(address, protocol(), {"users": "gone"}, consumer_byte_rate=2000, controller_mutation_rate=2)
    set_quotas(address, protocol(), {"users": "theirs"}, controller_mutation_rate=3)
    set_quotas(address, protocol(), {"ips": "10.0.0.1"}, connection_creation_rate=9)
    wrote(
        QuotaRecord(ALICE, 5.0, 500.0, 60_000),
        QuotaRecord(QuotaEntity("gone"), 2.0),
        QuotaRecord(QuotaEntity("gone"), None),
        QuotaRecord(QuotaEntity(None), 1.0),
        QuotaRecord(QuotaEntity(None, None), 2.5),
        QuotaRecord(QuotaEntity("O=Ü, CN='дж' 100%/\u202e", "app ✓"), 0.1),
        QuotaRecord(QuotaEntity(client_id="app"), 7.0),
        QuotaRecord(QuotaEntity("shady"), 9.0, shadow=True),
        QuotaRecord(QuotaEntity("later"), 9.0, effective_at=4_000_000_000_000),
    )
    plan, warnings = quotas("push", "--dry-run", exit_code=3)
    user = "\"O=Ü, CN='дж' 100%/\\u202e\" (spelled \"O=\\xdc, CN='\\u0434\\u0436' 100%/\\u202e\")"
    assert plan == [
        f"+ client-id 'app': {RATE}=7.0",
        f"+ user-principal {user}, client-id 'app ✓' (spelled 'app \\u2713'): {RATE}=0.1",
        f"~ user-principal 'alice': {RATE}=1.0 -> {RATE}=5.0",
        f"- user-principal 'gone': {RATE}=2.0",
        f"+ the default user-principal, the default client-id: {RATE}=2.5",
        f"+ the default user-principal: {RATE}=1.0",
        f"  user-principal 'theirs': {RATE}=3.0 (only on the cluster; --prune removes it)",
        "6 changes would be made: 4 added, 1 changed, 1 removed.",
    ]
    wider = "the default user-principal, the default client-id"
    assert [warning.partition(": ")[2] for warning in warnings] == [
        "user-principal 'alice': has a burst of 500 here, and of 55 there, which follows from the rate",
        "user-principal 'alice': has debts of 60000 ms at most here, and of any length there",
        f"user-principal 'shady': {SHADOW}; the quota of {wider} applies there instead",
        f"user-principal 'later': becomes {RATE}=9.0 from 2096-10-02T07:06:40.000Z on, and not before",
    ]
    assert rates(address) == {"user-principal 'alice'": 1, "user-principal 'gone'": 2, "user-principal 'theirs'": 3}

    done = quotas("push", "--yes", "--output", "json")
    assert (done["applied"], len(done["changes"]), len(done["notes"])) == (True, 6, 4)
    assert done["only_there"] == [{"entity": {"user": "theirs"}, RATE: 3.0}]
    assert done["changes"][2] == {
        "entity": {"user": "alice"},
        "before": {RATE: 1.0},
        "after": {RATE: 5.0},
        "effective_at": None,
    }
    assert client_quotas(address, protocol()) == {
        "user-principal 'alice'": {RATE: 5.0, "producer_byte_rate": 1000.0},
        "user-principal 'gone'": {"consumer_byte_rate": 2000.0},
        "user-principal 'theirs'": {RATE: 3.0},
        "the default user-principal": {RATE: 1.0},
        "user-principal 'O=Ü, CN='дж' 100%/\u202e', client-id 'app ✓'": {RATE: 0.1},
        "the default user-principal, the default client-id": {RATE: 2.5},
        "client-id 'app'": {RATE: 7.0},
        "ip '10.0.0.1'": {"connection_creation_rate": 9.0},
    }
    assert quotas("push", "--yes")[0][-1] == "Nothing to change."


def test_a_foreign_change_is_drift_until_it_is_undone_or_imported(broker, wrote, quotas, deployment):
    """The imported one has an author and a comment in the log, and what is scheduled there stays."""
    wrote(QuotaRecord(ALICE, 5.0), QuotaRecord(ALICE, 50.0, effective_at=4_000_000_000_000))
    wrote(QuotaRecord(QuotaEntity("bob"), 7.0))
    quotas("push", "--yes")
    assert quotas("drift", "--output", "json") == {"differs": False, "differences": []}
    set_quotas(broker.address, protocol(), {"users": "alice"}, controller_mutation_rate=9, producer_byte_rate=10)
    set_quotas(broker.address, protocol(), {"users": "bob"}, controller_mutation_rate=None)
    set_quotas(broker.address, protocol(), {"clients": None}, controller_mutation_rate=2)
    drift = quotas("drift", "--output", "json", exit_code=3)
    kinds = [(difference["entity"], difference["difference"]) for difference in drift["differences"]]
    assert kinds == [({"client-id": None}, "only_there"), ({"user": "alice"}, "changed"), ({"user": "bob"}, "missing")]
    quotas("push", "--yes", "--prune")
    assert quotas("drift") == ([f"The quotas of Kafka at {broker.address} are the same as in the log."], [])

    set_quotas(broker.address, protocol(), {"users": "alice"}, controller_mutation_rate=9)
    plan, warnings = quotas("pull", "--apply", "--dry-run", exit_code=3)
    assert plan == [f"~ user-principal 'alice': {RATE}=5.0 -> {RATE}=9.0", "1 change would be made: 1 changed."]
    (warning,) = warnings
    assert warning.startswith(f"warning: still scheduled: user-principal 'alice': becomes {RATE}=50.0 from 2096-10-02T")
    assert quotas("pull", "--apply", "--yes", "--output", "json")["applied"] is True
    log = read_log(deployment, with_entries=True)
    assert [change.quota for change in log.timeline.scheduled(log.now)] == [Quota(50.0)]
    last = log.entries[-1].record
    assert (last.altered_by, last.comment) == ("ann", f"pulled from Kafka at {broker.address}")
    assert quotas("pull", "--apply", "--yes")[0] == ["Nothing to change."]


def test_the_quotas_of_a_cluster_are_exported_to_a_file(broker, wrote, quotas, tmp_path):
    wrote()
    set_quotas(broker.address, protocol(), {"users": "ж"}, controller_mutation_rate=5.5)
    set_quotas(
        broker.address, protocol(), {"users": None, "clients": "app"}, controller_mutation_rate=2, producer_byte_rate=9
    )
    set_quotas(broker.address, protocol(), {"users": "bytes"}, producer_byte_rate=9)
    lines, warnings = quotas("pull")
    assert lines == [
        "quotas:",
        "- entity:",
        "    user: ж",
        f"  {RATE}: 5.5",
        "- entity:",
        "    user: null",
        "    client-id: app",
        f"  {RATE}: 2.0",
    ]
    assert warnings == []
    assert "Wrote quotas.yaml: " in quotas("pull", "--output-file", "quotas.yaml")[0][0]
    assert (tmp_path / "quotas.yaml").read_text().splitlines() == lines
    quotas("apply", "quotas.yaml", "--yes")
    described = quotas("describe", "--output", "json")["quotas"]
    assert [(quota["entity"], quota[RATE]) for quota in described] == [
        ({"user": "ж"}, 5.5),
        ({"user": None, "client-id": "app"}, 2.0),
    ]


def test_a_different_window_of_the_brokers_is_reported(wrote, quotas):
    wrote(QuotaRecord(ALICE, 5.0))
    _, (warning,) = quotas("push", "--dry-run", exit_code=3, options=("--set", "quota.window_num=100"))
    assert warning.startswith("warning: the brokers' window is 11 x 1 s (controller.quota.window.num and size.seconds)")
    assert warning.endswith("bursts are 11 s of a quota there, and 100 s here")


@contextmanager
def following(deployment, *options):
    """Run the service inside the block, which gets the process and the lines of its log as they come."""
    command = command_line(*as_options(deployment, *options), "quotas", "push", "--yes", "--follow")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = []

    def read():
        lines.extend(line.strip() for line in process.stderr)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        until(lambda: any(line.startswith("running: push") for line in lines))
        yield process, lines
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


def test_a_service_pushes_changes_at_once_and_ends_without_its_brokers(base_settings, another_broker, tmp_path):
    """The next one starts with what has changed since; the brokers of the log and of the quotas are the same here."""
    settings = prepared_deployment(base_settings, another_broker, "push-follow", tmp_path)
    QuotaWriter(settings).write([QuotaRecord(ALICE, 5.0)])
    port = free_port()
    with following(settings, f"metrics.port={port}", "kafka.timeout_seconds=2") as (process, lines):
        assert rates(another_broker.address) == {"user-principal 'alice'": 5.0}
        until(lambda: ("mutation_quota_push_last_comparison_timestamp_seconds",) in served_samples(port))
        QuotaWriter(settings).write([QuotaRecord(QuotaEntity("bob"), 7.0)])
        until(lambda: rates(another_broker.address) == {"user-principal 'alice'": 5.0, "user-principal 'bob'": 7.0})
        another_broker.stop()
        assert process.wait(30) == 1
        until(lambda: lines[-1].startswith("mutation-quota: cannot read the quotas "))
    another_broker.start()
    QuotaWriter(settings).write([QuotaRecord(ALICE, None), QuotaRecord(QuotaEntity("bob"), 9.0)])
    with following(settings) as (process, lines):
        assert rates(another_broker.address) == {"user-principal 'bob'": 9.0}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, lines


def test_rates_that_only_a_migrated_cluster_has_are_named(command, deployment):
    """A scripted broker, since Kafka refuses to set them: a rate of 0, a name that is empty, and an encoded one."""

    def entry(user, rate):
        return {"entity": [{"entityType": "user", "entityName": user}], "values": [{"key": RATE, "value": rate}]}

    entries = [entry("alice", 0.0), entry("", 1.0), entry("CN%3Dfrank", 5.0)]
    described = {"throttleTimeMs": 0, "errorCode": 0, "errorMessage": None, "entries": entries}
    prepare_topics(deployment)
    QuotaWriter(deployment).write([QuotaRecord(ALICE, 7.0)])
    zero = (
        f"warning: user-principal 'alice': skipped: {RATE}=0.0 on the cluster admits nothing after the first request, "
        "and is not a valid quota here"
    )
    named = [
        f"warning: user-principal '': left out: {RATE}=1.0 on the cluster applies to nobody, since a name is empty",
        (
            "warning: user-principal 'CN%3Dfrank': probably nobody's name: leave out User:, spaces around it and "
            "percent-encoding; groups have no quotas"
        ),
    ]
    with ScriptedBroker(protocol(), {ApiKey.DESCRIBE_CLIENT_QUOTAS: described}).listening() as target:
        there = ("--set", f"kafka.target_servers={target.address}")
        drift = command("quotas", "drift", *there, exit_code=3).splitlines()
        assert f"~ user-principal 'alice': {RATE}=7.0 -> {RATE}=0.0" in drift
        assert drift[-2:] == named
        for code, *action in ((3, "push", "--prune", "--dry-run"), (3, "pull", "--apply", "--dry-run"), (0, "pull")):
            printed = command("quotas", *action, *there, exit_code=code).splitlines()
            assert [warning for warning in named if warning not in printed] == []
            assert (zero in printed) is (action[0] == "pull")


PAGE = (CHECKOUT / "docs/how-to/push.md").read_text()
EXAMPLES = re.findall(r"```sh\n(.*?)```\n\n(?:[^`]*\n\n)?```text\n(.*?)```", PAGE, re.DOTALL)
OMITTED = ("Updated config for entity", "Completed updating config", "SCRAM credential configs")


def test_the_page_shows_what_its_commands_print(broker, wrote, quotas):
    """The commands run one after another; the output of changes of one quota is omitted."""
    wrote()
    assert len(EXAMPLES) == 4
    for commands, expected in EXAMPLES:
        printed = []
        for command in commands.replace("\\\n", "").splitlines():
            program, *args = shlex.split(command)
            if program == "kafka-configs.sh":
                printed += sorted(kafka_configs(broker.address, *args[2:]).splitlines())
            else:
                assert (program, args[0]) == ("mutation-quota", "quotas")
                differs = "--dry-run" in args or "controller_mutation_rate=9" in commands
                out, warnings = quotas(*args[1:], exit_code=3 if differs else 0)
                printed += warnings + out
        shown_lines = [line for line in printed if line and not line.startswith(OMITTED)]
        for line, shown in zip(shown_lines, expected.replace("kafka-1:9092", broker.address).splitlines(), strict=True):
            assert re.fullmatch(re.escape(shown).replace("…", ".*"), line), (line, shown)
