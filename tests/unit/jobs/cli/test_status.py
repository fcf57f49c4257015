"""The state of a deployment on a terminal of 80 columns."""

from msgspec import structs

from jobs.cli.status import print_status
from quota.timeline.change import ScheduledChange
from schemas.documents.status import (
    BatchStatus,
    CallbackStatus,
    ConfigDifference,
    EndpointStatus,
    KafkaStatus,
    PartitionLag,
    ProgramStatus,
    QueryStatus,
    Status,
    StorageStatus,
    TableStatus,
    TopicStatus,
)

AT = 1_795_266_000_000
MINUTE = 60_000

TOPICS = [
    TopicStatus(
        "mutation-requests", "requests", True, True, 6, 3, 0, 0, "delete", 604_800_000, "LogAppendTime",
        [ConfigDifference("partitions", "2", "6")],
    ),
    TopicStatus("mutation-decisions", "decisions", True, True, 2, 3, 0, 1, "delete", -1, "LogAppendTime", []),
    TopicStatus("mutation-quotas", "quotas", True, True, 1, 3, 0, 0, "compact", 604_800_000, "LogAppendTime", []),
    TopicStatus("mutation-dead-letters", "dead_letters", True, False),
    TopicStatus("mutation-positions", "positions", False, False),
]  # fmt: skip
LAGS = [
    PartitionLag("mutation-requests", number, 10, 0, 10 + lag, lag=lag, overdue=lag, lost=0)
    for number, lag in enumerate((0, 1200, 34))
]
QUERIES = [
    QueryStatus(
        "enforce", ["mutation-requests"], "checkpoints/enforce/v3", True, True, "metrics at h:1",
        BatchStatus(17, AT - 3 * MINUTE), BatchStatus(18, AT - 2 * MINUTE), 1234, 1234, LAGS,
    ),
    QueryStatus("audit", ["a"], "checkpoints/audit/v1", False),
]  # fmt: skip
TABLES = [
    TableStatus("decisions", True, None, 12, 5, 1_234_567, 1234, 45_000_000, AT - 61 * MINUTE),
    TableStatus("dead_letters", False),
]
STANDBY = EndpointStatus("h:3", None, True, [], "it is ready; standing by for process 7 on h, since noon")
STATUS = Status(
    at=AT,
    ok=False,
    problems=["topic mutation-dead-letters is missing, or this principal may not describe it: create it", "more"],
    program=ProgramStatus("0.1.0", 3),
    kafka=KafkaStatus("kafka-1:9092,kafka-2:9092", None, "abc", [1, 2, 3]),
    storage=StorageStatus("/srv/mutation-quota", None, 3, 5, []),
    topics=TOPICS,
    queries=QUERIES,
    tables=TABLES,
    endpoints=[EndpointStatus("h:1", None, False, ["enforce"]), EndpointStatus("h:2", "refused"), STANDBY],
)

EXPECTED = """\
mutation-quota 0.1.0, state version 3                       2026-11-21T13:00:00Z
Kafka    kafka-1:9092,kafka-2:9092: 3 brokers, cluster abc
Storage  /srv/mutation-quota: buckets of state version 3
Metrics  h:1: enforce: not ready
Metrics  h:2: no response
Metrics  h:3: it is ready; standing by for process 7 on h, since noon

TOPIC                  PART  RF  CLEANUP  RETENTION  STAMPED  STATE
mutation-requests         6   3  delete   7 d        broker   differs
mutation-decisions        2   3  delete   forever    broker   UNDER-REPLICATED
mutation-quotas           1   3  compact  -          broker   ok
mutation-dead-letters     -   -  -        -          -        MISSING
mutation-positions        -   -  -        -          -        not used yet
  mutation-requests: partitions=6 (created with 2)

QUERY      LAG  LAST BATCH                 RUNNING  POSITION STORED IN
enforce  1,234  3 min ago; one open 2 min  yes      checkpoints/enforce/v3
audit        -  has not run                ?        checkpoints/audit/v1
  enforce is behind in mutation-requests-1 by 1,200, mutation-requests-2 by 34
  RUNNING is ? on another machine without a metrics endpoint: --metrics
  HOST:PORT.

TABLE         COMMIT  SCHEMA       ROWS  FILES    SIZE  COMMITTED
decisions         12       5  1,234,567  1,234  43 MiB  1 h 1 min ago
dead_letters       -       -          -      -       -  none yet (audit)

2 problems:
- topic mutation-dead-letters is missing, or this principal may not describe it:
  create it
- more
"""


def test_one_screen_shows_topics_queries_tables_and_problems(capsys):
    print_status(STATUS)
    assert capsys.readouterr().out == EXPECTED


def test_scheduled_changes_are_listed_the_first_ten_of_them(capsys):
    changes = [ScheduledChange(AT + number, f"user-principal 'u{number}' is removed") for number in range(12)]
    print_status(structs.replace(STATUS, scheduled=changes))
    printed = capsys.readouterr().out
    assert "Scheduled changes:\n  user-principal 'u0' is removed\n" in printed
    assert "  user-principal 'u9' is removed\n  and 2 later ones (--output json)\n\n2 problems:" in printed
    print_status(structs.replace(STATUS, scheduled=None))
    assert "Scheduled changes are unknown, because the quota log cannot be read." in capsys.readouterr().out


def test_the_age_of_a_callbacks_metadata_is_printed(capsys):
    for metadata_at, age in ((None, "none published"), (AT - 90 * 86_400_000, "90 d ago")):
        print_status(structs.replace(STATUS, callback=CallbackStatus("our.Callback", metadata_at)))
        assert f"\nCallback our.Callback; the cluster's metadata: {age}\n" in capsys.readouterr().out


def test_a_lag_that_is_not_overdue_is_called_normal(capsys):
    enforce, *_ = QUERIES
    print_status(structs.replace(STATUS, queries=[structs.replace(enforce, overdue=0)]))
    printed = capsys.readouterr().out
    assert "  A lag is normal while records wait for the next batch, for up to a minute.\n" in printed
    assert "RUNNING is ?" not in printed


def test_only_topics_of_users_with_problems_are_printed(capsys):
    users = [TopicStatus(f"mutation-requests.u{number}", "requests", True, True, 2, 3, 0, 0) for number in range(40)]
    users[33] = structs.replace(users[33], leaderless=1)
    users[34] = structs.replace(users[34], differences=[ConfigDifference("partitions", "2", "3")])

    print_status(structs.replace(STATUS, topics=[*TOPICS[1:], *users]))

    printed = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in printed if line.startswith("mutation-requests.")]
    assert [(name, state) for name, *_, state in rows if state != "ok"] == [
        ("mutation-requests.u33", "LEADER"),
        ("mutation-requests.u34", "differs"),
    ]
    assert len(rows) == 10
    assert "  and 30 more topics of users (--output json)" in printed
