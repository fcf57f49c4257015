"""`quotas` and `buckets` as an operator uses them, on a real broker."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import QuotaWriter, write_record
from quota.kafka.timing import now_ms
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, QuotaRecord
from tests.support.waiting import until

ALICE = QuotaEntity("alice")


def test_quotas_are_set_changed_described_and_explained(command):
    """KIP-599's other spelling is accepted; an option is added to the existing rate, and removed with it."""
    assert "reading controller_mutations_rate as controller_mutation_rate" in command(
        "quotas", "alter", "--user", "alice", "--add-config", "controller_mutations_rate=5", "--comment", "agreed"
    )
    options = ("quotas", "alter", "--user", "alice", "--add-config", "max_debt_ms=60000")
    assert [command(*options).partition(" config ")[0] for _ in "12"] == ["Updated", "Unchanged"]
    command("quotas", "alter", "--user-defaults", "--client", "app", "--add-config", "controller_mutation_rate=2")
    command(
        "quotas", "alter", "--client-defaults", "--add-config", "controller_mutation_rate=9", "--effective-at", "+1d"
    )
    assert "shadow needs a quota, and this entity has none" in command(
        "quotas", "alter", "--user", "bob", "--add-config", "shadow=true", exit_code=2
    )

    described = command("quotas", "describe", "--output", "json")["quotas"]
    assert [{name: value for name, value in each.items() if name != "since"} for each in described[:2]] == [
        {"entity": {"user": "alice"}, "controller_mutation_rate": 5.0, "max_debt_ms": 60_000},
        {"entity": {"user": None, "client-id": "app"}, "controller_mutation_rate": 2.0},
    ]
    assert (described[2]["entity"], "effective_at" in described[2]) == ({"client-id": None}, True)
    for filters, expected in (
        (["--any-user", "--strict"], [{"user": "alice"}]),
        (["--entity-type", "clients"], [{"user": None, "client-id": "app"}, {"client-id": None}]),
        (["--user-defaults"], [{"user": None, "client-id": "app"}]),
        (["--client", "app"], [{"user": None, "client-id": "app"}]),
    ):
        code = 0 if expected else 4
        found = command("quotas", "describe", *filters, "--output", "json", exit_code=code)["quotas"]
        assert [each["entity"] for each in found] == expected

    explained = command("quotas", "resolve", "--user", "alice", "--client", "app", "--output", "json")
    assert (explained["level"], explained["entity"], explained["bucket"]) == (3, {"user": "alice"}, {"user": "alice"})
    assert (explained["quota"]["controller_mutation_rate"], explained["burst"]) == (5.0, 55.0)
    assert [each["level"] for each in explained["levels"] if each["quota"]] == [3, 4]
    assert "shared by all their client-ids" in command("quotas", "resolve", "--user", "alice")
    assert "unlimited: none of the eight levels has a quota" in command("quotas", "resolve", "--user", "bob")
    assert "9 mutations/s, set for the default client-id" in command(
        "quotas", "resolve", "--user", "bob", "--at", "+2d"
    )

    command("quotas", "alter", "--user", "alice", "--delete-config", "controller_mutation_rate")
    history = command("quotas", "history", "--user", "alice", "--output", "json")["changes"]
    assert [(each["before"], each["after"]) for each in history] == [
        (None, {"controller_mutation_rate": 5.0}),
        ({"controller_mutation_rate": 5.0}, {"controller_mutation_rate": 5.0, "max_debt_ms": 60_000}),
        ({"controller_mutation_rate": 5.0, "max_debt_ms": 60_000}, None),
    ]
    assert {each["altered_by"] for each in history} == {"ann"}
    assert history[0]["comment"] == "agreed"


def test_a_file_is_applied_rolled_back_and_exported(command, deployment, tmp_path):
    prepare_topics(deployment)
    first = write_record(deployment, QuotaRecord(ALICE, 5.0, 100.0))
    (tmp_path / "quotas.yaml").write_text(
        "quotas:\n"
        "- {entity: {user: alice}, controller_mutation_rate: 7}\n"
        "- {entity: {user: o'brien}, controller_mutation_rate: 1}\n"
    )
    before = "controller_mutation_rate=5.0,controller_mutation_burst=100.0"
    plan = command("quotas", "apply", "quotas.yaml", "--dry-run", exit_code=3)
    assert plan.splitlines() == [
        f"~ user-principal 'alice': {before} -> controller_mutation_rate=7.0",
        '+ user-principal "o\'brien": controller_mutation_rate=1.0',
        "2 changes would be made: 1 added, 1 changed.",
    ]
    assert [each["entity"] for each in command("quotas", "describe", "--output", "json")["quotas"]] == [
        {"user": "alice"}
    ]
    later = ("--effective-at", "2099-01-01", "--output", "json")
    scheduled = command("quotas", "apply", "quotas.yaml", "--dry-run", *later, exit_code=3)["changes"]
    assert [each["effective_at"] for each in scheduled] == [4_070_908_800_000] * 2
    assert command("quotas", "apply", "quotas.yaml", "--yes").replace("made", "would be made") == plan
    assert command("quotas", "apply", "quotas.yaml", "--yes") == "Nothing to change.\n"
    assert command("quotas", "export", "--format", "kafka-configs").splitlines()[1] == (
        f"kafka-configs.sh --bootstrap-server {deployment.kafka.bootstrap_servers} --alter --entity-type users "
        """--entity-name 'o'"'"'brien' --add-config controller_mutation_rate=1.0"""
    )

    command("quotas", "alter", "--user", "alice", "--add-config", "controller_mutation_rate=9", "--effective-at", "+1d")
    assert "3 changes made" in command("quotas", "rollback", "--at", str(first), "--yes")
    (left,) = command("quotas", "describe", "--output", "json")["quotas"]
    assert (left["controller_mutation_rate"], left["controller_mutation_burst"]) == (5.0, 100.0)
    assert command("quotas", "export", "--output-file", "exported.yaml", "--output", "json") == {
        "file": "exported.yaml",
        "quota_count": 1,
    }
    assert command("quotas", "apply", "exported.yaml", "--yes") == "Nothing to change.\n"
    assert "compacted" in command("quotas", "rollback", "--at", "-8d", "--yes", exit_code=2)


def test_a_scheduled_change_is_cancelled(command):
    command(
        "quotas",
        "alter",
        "--user",
        "alice",
        "--add-config",
        "controller_mutation_rate=9",
        "--effective-at",
        "2099-01-01",
    )
    wrong = command("quotas", "cancel", "--user", "alice", "--effective-at", "2098-01-01", exit_code=4)
    assert "no change scheduled for 2098-01-01T00:00:00.000Z, only for 2099-01-01T00:00:00.000Z" in wrong
    command("quotas", "cancel", "--user", "alice", "--effective-at", "2099-01-01")
    assert command("quotas", "describe", "--output", "json")["quotas"] == []
    assert [each["kind"] for each in command("quotas", "history", "--output", "json")["changes"]] == ["quota", "cancel"]


def test_a_scheduled_option_changes_what_is_then_in_force(command, deployment):
    """The rate that is set after it stays, and so does a removal; options for one time are kept together."""

    def alter(option, configs, *more):
        command("quotas", "alter", "--user", "alice", f"--{option}-config", configs, *more)

    def described():
        listed = command("quotas", "describe", "--output", "json")["quotas"]
        return [(each["controller_mutation_rate"], each.get("controller_mutation_burst")) for each in listed]

    later = ("--effective-at", "2099-01-01")
    alter("add", "controller_mutation_rate=5")
    alter("add", "controller_mutation_burst=50", *later)
    alter("add", "max_debt_ms=1000", *later)
    alter("add", "controller_mutation_rate=20")
    assert described() == [(20.0, None), (20.0, 50.0)]
    entries = read_log(deployment, with_entries=True).entries
    assert [each.record.altered_configs for each in entries] == [
        ["controller_mutation_rate"],
        ["controller_mutation_burst"],
        ["controller_mutation_burst", "max_debt_ms"],
        ["controller_mutation_rate"],
    ]
    alter("delete", "controller_mutation_rate")
    assert described() == [(None, None)]
    changes = command("quotas", "history", "--output", "json")["changes"]
    assert [each["after"] and each["after"].get("controller_mutation_burst") for each in changes] == [
        *(None, 50.0, 50.0, None, None)
    ]


def test_what_validate_warns_of_is_warned_of_where_it_is_set(command, tmp_path):
    """Of a name that names nobody, and of a quota that new client-ids evade, but not of an ordinary quota."""
    alter = ("quotas", "alter", "--add-config", "controller_mutation_rate=1")
    misspelled = "warning: user-principal 'User:carol': probably nobody's name: leave out User:"
    evaded = (
        "warning: a user whom no quota names gets a full bucket with each new client-id, by the quota of the default"
    )
    assert misspelled in command(*alter, "--user", "User:carol")
    misread = "warning: --user 'User:carol': probably nobody's name: leave out User:"
    assert misread in command("quotas", "resolve", "--user", "User:carol")
    assert evaded in command(*alter, "--client-defaults")
    assert evaded in command("quotas", "resolve", "--user", "zoe", "--client", "app")
    assert "warning" not in command(*alter, "--user", "alice")
    (tmp_path / "all.yaml").write_text(command("quotas", "export"))
    applied = command("quotas", "apply", "all.yaml", "--dry-run")
    assert (misspelled in applied, evaded in applied) == (True, True)


def test_a_reset_is_in_the_history_and_explained(command):
    command("quotas", "alter", "--user", "alice", "--add-config", "controller_mutation_rate=5")
    command("buckets", "reset", "--yes", "--user", "alice", "--comment", "one huge deletion")
    *_, reset = command("quotas", "history", "--user", "alice", "--output", "json")["changes"]
    assert (reset["kind"], reset["bucket"], reset["comment"]) == (
        "bucket_reset",
        {"user": "alice"},
        "one huge deletion",
    )
    assert command("quotas", "resolve", "--user", "alice", "--output", "json")["reset_at"] == reset["timestamp"]
    assert "whose buckets?" in command("buckets", "reset", "--yes", exit_code=2)


def test_operators_who_alter_at_once_lose_nothing(deployment):
    """Each repeatedly changes another part of two quotas at once; the last values are in force, and all are logged."""
    prepare_topics(deployment)
    both = (ALICE, QuotaEntity("bob"))
    QuotaWriter(deployment).write([QuotaRecord(each, 100.0) for each in both])  # a value that no operator sets
    rounds = 8

    def alter(config):
        writer = QuotaWriter(deployment)
        for number in range(1, rounds + 1):

            def change(entity, quota, number=number):
                values = (quota.rate, quota.burst, quota.max_debt_ms)
                record = QuotaRecord(entity, *values, altered_by=config, altered_configs=[config])
                return msgspec.structs.replace(record, **{config: number})

            changes = {each: partial(change, each) for each in both}
            altered = writer.alter_quotas(changes)
            assert {entity: done.record.entity for entity, done in altered.items()} == {each: each for each in both}

    configs = ("controller_mutation_rate", "controller_mutation_burst", "max_debt_ms")
    with ThreadPoolExecutor(len(configs)) as operators:
        list(operators.map(alter, configs))

    log = read_log(deployment, with_entries=True)
    for each in both:
        assert log.timeline.latest(each, log.now).quota == Quota(rounds, rounds, rounds)
        for config in configs:
            logged = [
                entry for entry in log.entries if (entry.record.entity, entry.record.altered_by) == (each, config)
            ]
            assert len(logged) >= rounds


def test_thousands_of_quotas_are_written_read_and_described(deployment):
    """Every one, in the order given."""
    prepare_topics(deployment)
    entities = [QuotaEntity(f"user-{number:06}", "app") for number in range(20_000)]
    written = QuotaWriter(deployment).write(
        [QuotaRecord(entity, 1.0 + number) for number, entity in enumerate(entities)]
    )
    assert len(written) == len(entities)
    log = read_log(deployment, with_entries=True)
    assert [entry.record.entity for entry in log.entries] == entities
    configured = log.timeline.configured(log.now)
    assert [change.entity for change in configured] == entities
    assert log.timeline.resolve("user-017777", "app", log.now).limit.quota.rate == 17_778.0


def test_a_change_after_a_scheduled_one_took_effect_keeps_its_other_values(deployment):
    """The quota in force has a different key than the one that an alteration writes."""
    prepare_topics(deployment)
    soon = now_ms() + 1_500
    QuotaWriter(deployment).write([QuotaRecord(ALICE, 5.0), QuotaRecord(ALICE, 50.0, 99.0, effective_at=soon)])
    until(lambda: now_ms() > soon, 30)

    def bounded(quota):
        return QuotaRecord(ALICE, quota.rate, quota.burst, 1000, altered_configs=["max_debt_ms"])

    QuotaWriter(deployment).alter_quotas({ALICE: bounded})
    log = read_log(deployment, with_entries=True)
    assert log.timeline.latest(ALICE, log.now).quota == Quota(50.0, 99.0, 1000)
    assert len(log.entries) == 3
    QuotaWriter(deployment).alter_quotas({ALICE: bounded})
    assert len(read_log(deployment, with_entries=True).entries) == 3  # there was no new change
