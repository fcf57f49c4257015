"""The views and questions of `docs/reference/tables.md`, in Spark and in DuckDB."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.dashboard.report import ReportScope, report_on_tables
from quota.algorithms.token_bucket import TokenBucket
from quota.records.quota_log import Callbacks, Window
from quota.settings import load_settings
from quota.whatif.simulation import read_quotas, simulate
from tests.support.audited import audited
from tests.support.checkout import CHECKOUT
from tests.support.factories import PERMISSIVE
from tests.support.factories import request_at as asked_at
from tests.support.tables import data_of

DOCS = CHECKOUT / "docs/reference"
PAGE = (DOCS / "tables.md").read_text()
SQL = (DOCS / "questions.sql").read_text()
WHERE = "/srv/mutation-quota"
"""What the page calls the storage root."""

START = datetime(2026, 11, 21, 13, tzinfo=UTC)
MS = int(START.timestamp() * 1000)
HOUR = 3_600_000
ALICE, BOB, PAYMENTS, NOBODY = '{"user":"alice"}', '{"user":"bob","client-id":"app"}', '{"group":"payments"}', "{}"


def moment(ms):
    return START + timedelta(milliseconds=ms)


def at(ms, *partitions, **fields):
    return asked_at(MS + ms, *partitions, **fields)


REQUESTS = [
    at(0, 60),  # alice has 55, and 5 a second: -5 left
    at(300, 60),  # the same again, not charged
    at(500, 10),  # -2.5: wait until 1,000
    at(700, 10, 20),  # -1.5: wait until the same moment
    at(2000, 2, user="bob", client_id="app"),  # 9 of 11 left, 1 a second
    at(3000, 7, user="admin"),  # never throttled
    at(4000, 500, validate_only=True),
    at(HOUR, 100),  # -45 left
    at(HOUR + 1000, 30),  # -40: wait until 9,000
    at(HOUR + 2000, 20, user="bob", client_id="app", api_version=PERMISSIVE),  # -9: wait until 11,000
    b"no request",
    b"{}",
    b"neither",
]
QUOTAS = [
    {"entity": {"user": "alice"}, "controller_mutation_rate": 5},
    {"entity": {"user": None, "client-id": None}, "controller_mutation_rate": 1},
]
GROUP = Callbacks(
    "quota.callbacks.groups.GroupQuotaCallback",
    (("group.payments.users", "dave"), ("group.payments.controller_mutation_rate", "10")),
)
CANCELLED = {"entity": {"user": "alice"}, "controller_mutation_rate": 50, "effective_at": MS + 10_000}
TO_COME = {"entity": {"user": "alice"}, "controller_mutation_rate": 7, "effective_at": MS + 20_000}
CHANGES = {
    1000: QUOTAS[0] | {"altered_by": "ann", "comment": "to begin with"},
    2000: QUOTAS[1] | {"altered_by": "ann"},
    3000: CANCELLED | {"altered_by": "bob"},
    4000: CANCELLED | {"altered_by": "ann", "cancelled": True},
    5000: TO_COME | {"altered_by": "carl"},
    30_000: {"entity": {"user": "alice"}, "controller_mutation_rate": None, "altered_by": "carl"},
    40_000: {"bucket": {"user": "alice"}, "altered_by": "ann"},
    50_000: TO_COME | {"altered_by": "ann", "cancelled": True},
}
"""The last one comes too late to take anything back."""


@pytest.fixture(scope="module")
def root(base_settings, tmp_path_factory):
    """A storage root with the tables, as the audit has written them from the topics."""
    root = tmp_path_factory.mktemp("root")
    grouped = simulate([at(5000, 3, user="dave")], read_quotas([], GROUP), TokenBucket(Window()), topic="others")
    settings = audited(base_settings, root, REQUESTS, QUOTAS, changes=CHANGES, start=MS, more=grouped)
    assert Path(settings.storage.table("decisions")) == root / "tables" / "decisions"
    return root


def statements(text):
    return [statement for statement in text.split(";\n") if statement.strip()]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def in_spark(spark, root):
    """Query Spark, which has the views of the page."""
    views, *_ = blocks("sql")
    for statement in statements(views.replace(WHERE, str(root))):
        spark.sql(statement)

    def ask(question):
        return [tuple(_plain(value) for value in row) for row in spark.sql(question).collect()]

    yield ask
    for name in ("decisions", "mutations", "dead_letters", "quota_changes"):
        spark.catalog.dropTempView(name)


@pytest.fixture(scope="module")
def in_duckdb(root):
    """Query DuckDB as the page does."""
    (script,) = blocks("python")
    names = {}
    exec(script.replace(WHERE, str(root)), names)  # noqa: S102 it is ours
    return lambda question: [tuple(_plain(value) for value in row) for row in names["db"].sql(question).fetchall()]


@pytest.fixture(params=["spark", "duckdb"])
def ask(request):
    return request.getfixturevalue(f"in_{request.param}")


def _plain(value):
    """A time as UTC; Spark gives it in the machine's zone, without saying so."""
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC)


QUESTIONS = dict(enumerate(statements(SQL), start=1))


def test_which_tenant_was_rejected_the_most(ask):
    assert ask(QUESTIONS[1]) == [(ALICE, 3, 4, 70)]


def test_mutations_by_the_hour(ask):
    """Neither repeats nor validations count."""
    assert ask(QUESTIONS[2]) == [(moment(0), 60 + 2 + 7 + 3, 10 + 10 + 20), (moment(HOUR), 100 + 20, 30)]


def test_how_long_each_was_throttled(ask):
    """Alice is throttled from 500 to 1,000, by two decisions, and for 8 s in the next hour."""
    assert ask(QUESTIONS[3]) == [(BOB, 1, 9000), (ALICE, 3, 8500)]


@pytest.mark.parametrize(
    ("ms", "user", "expected"),
    [
        (999, "alice", []),
        (1000, "alice", [(ALICE, 5.0, None, moment(1000), "ann", "to begin with")]),
        (15_000, "alice", [(ALICE, 5.0, None, moment(1000), "ann", "to begin with")]),
        (20_000, "alice", [(ALICE, 7.0, None, moment(20_000), "carl", None)]),
        (30_000, "alice", [('{"user":null,"client-id":null}', 1.0, None, moment(2000), "ann", None)]),
    ],
)
def test_which_quota_was_in_force_and_who_set_it(ask, ms, user, expected):
    question = QUESTIONS[4].replace("2026-11-21 14:00:00", moment(ms).strftime("%Y-%m-%d %H:%M:%S.%f"))
    assert ask(question.replace("'alice'", f"'{user}'")) == expected


def test_how_near_each_tenant_is_to_its_limit(ask):
    assert ask(QUESTIONS[5]) == [
        (BOB, moment(HOUR + 2000), 1.0, -9.0, -9 / 11, -9 / 11),
        (ALICE, moment(HOUR + 1000), 5.0, -40.0, -40 / 55, -45 / 55),
        (PAYMENTS, moment(5000), 10.0, 107.0, 107 / 110, 107 / 110),
    ]


def test_each_tenant_by_the_minute(ask):
    """Alice's 500 are a validation, and her repeated 60 count once; a user without a quota has no tokens."""
    first, later = moment(0), moment(HOUR)
    assert ask(QUESTIONS[6]) == [
        (first, PAYMENTS, 1, 3, 0, 107.0, 107 / 110, 0),
        (first, ALICE, 5, 60, 40, -5.0, -5 / 55, 500),
        (first, BOB, 1, 2, 0, 9.0, 9 / 11, 0),
        (first, NOBODY, 1, 7, 0, None, None, 0),
        (later, ALICE, 2, 100, 30, -45.0, -45 / 55, 8000),
        (later, BOB, 1, 20, 0, -9.0, -9 / 11, 9000),
    ]


def test_the_report_has_the_same_sums(root):
    settings = load_settings([f"storage.root={root}"], environment={})
    data = data_of(report_on_tables(settings, ReportScope()).page)
    sums = {name: sum(interval[name] for interval in data["intervals"]) for name in ("admitted", "rejected", "letters")}
    assert sums == {"admitted": 60 + 2 + 7 + 3 + 100 + 20, "rejected": 10 + 10 + 20 + 30, "letters": 3}


EXAMPLES = {
    "decisions": [3, "REJECTED"],
    "dead_letters": [2, "mutation-requests"],
    "quota_changes": [8, "bucket_reset"],
}


@pytest.mark.parametrize("table", EXAMPLES)
def test_the_examples_of_the_page_are_answered(ask, table):
    (section,) = re.findall(rf"^## {table}\n(.*?)(?:^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    (example,) = re.findall(r"```sql\n(.*?);\n```", section, re.DOTALL)
    rows, value = EXAMPLES[table]
    answers = ask(example)
    assert len(answers) == rows
    assert any(value in row for row in answers)


def test_delta_has_the_description_of_each_column(spark, root):
    rows = spark.sql(f"DESCRIBE delta.`{root}/tables/decisions`").collect()
    assert {row.col_name: row.comment for row in rows}["quota"] == "Q, the quota; null for unlimited [mutations/s]"
