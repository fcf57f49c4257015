"""Random logs and runs (hypothesis), biased towards cases where the order of requests matters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication
from quota.records.quota_log import Window
from tests.support.reference.log import ABSENT, Change, Entry, Log, Reset
from tests.support.replay.engine import Run

START = 1_700_000_000_000
USERS = ["alice", "bob", 'x","y', ""]
CLIENTS = ["app", "é\u2028\U0001f600", None]
_RECORDS_OF_A_LOG, _MAX_CHANGES = (40, 60), 8
_PARTITIONS = 3

_GAPS = st.sampled_from([0, 0, 1, 40, 400, 3000, 20_000, -1, -700, -5000])
"""Times from one record to the next, ms; a negative one is a step back of the clock."""

_BAD_WITHDRAWALS = [
    b'{"request_id": "r", "user": "alice", "operation": "CREATE_TOPICS", "api_version": 7, '
    b'"topics": [{"name": "t0", "partitions": 1}], "withdraws": %s}' % rest
    for rest in (
        b"true",
        b'1, "validate_only": true',
        b'{}, "validate_only": true',
        b'true, "validate_only": true, "observed": {"at": 1700000000000, "error_codes": [0]}',
        b'true, "validate_only": true, "expires_at": -1',
    )
]
_BAD = st.one_of(
    st.sampled_from([None, b"", b"[" * 200, b'{"request_id": "r"}', b'{"request_id": 5, "half', b"\xff{}"]),
    st.sampled_from(_BAD_WITHDRAWALS),
    st.binary(min_size=1, max_size=8).map(lambda some: b"\x00" + some),
)
_OPERATIONS = [("CREATE_TOPICS", 6), ("CREATE_PARTITIONS", 3), ("DELETE_TOPICS", 5)]


_DEDUPLICATION = [
    NO_DEDUPLICATION,
    Deduplication(3000),
    Deduplication(20_000, max_requests=1),
    Deduplication(20_000, max_requests=2),
]
"""Some windows are as long as a gap, so that a repeat may come in the last ms of one; some remember few requests."""


@st.composite
def _requests(draw) -> Mapping[str, object]:
    operation, strict = draw(st.sampled_from(_OPERATIONS))
    expires_at = draw(st.sampled_from([None, None, None, START]))  # which has passed
    costs = draw(st.lists(st.sampled_from([0, 1, 3, 20, 80, 700]), min_size=1, max_size=4))
    request = {
        "request_id": draw(st.sampled_from(["r", "s", "t"])),
        "user": draw(st.sampled_from(USERS)),
        "client_id": draw(st.sampled_from(CLIENTS)),
        "operation": operation,
        "api_version": strict - draw(st.sampled_from([0, 0, 1])),
        "validate_only": draw(st.sampled_from([False] * 7 + [True])),
        "expires_at": expires_at,
        "apply": None if expires_at is None else False,  # an applier's is a dead letter then
        "request_throttle_ms": draw(st.sampled_from([0, 0, 250])),
        "purgatory_ms": draw(st.sampled_from([0, 0, 100])),
        "topics": [{"name": f"t{number}", "partitions": cost} for number, cost in enumerate(costs)],
    }
    return {name: value for name, value in request.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Again:
    """A request that is sent again, `later` requests later, with some fields changed."""

    later: int
    changed: Mapping[str, object]
    of_topic: Mapping[str, object]
    """Changed fields of the first topic."""

    def of(self, before: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
        """Return the request, given the requests before it."""
        request = before[-self.later :][0]
        first, *others = request["topics"]
        return {**request, "topics": [{**first, **self.of_topic}, *others], **self.changed}


_BEFORE_ALL = {
    "request_id": "r",
    "user": "alice",
    "operation": "CREATE_TOPICS",
    "api_version": 7,
    "request_throttle_ms": 0,
    "purgatory_ms": 0,
    "topics": [{"name": "t0", "partitions": 1}],
}
"""The request that is sent again if nothing was sent before."""

_WITHDRAWN = {"withdraws": True, "validate_only": True}
_LATER = {"expires_at": 4_102_444_800_000}
_ASKED = {"withdraws": False, "validate_only": False}
"""Makes a withdrawal the request that it withdraws, which comes after it, or again."""

_AGAIN = st.builds(
    _Again,
    st.integers(1, 4),
    st.sampled_from(
        [{}] * 7
        + [_WITHDRAWN] * 4
        + [_LATER] * 2
        + [_WITHDRAWN | _LATER]
        + [_ASKED, _WITHDRAWN | {"request_id": "s"}]
        + [{"request_id": "s"}, {"purgatory_ms": 100}, {"api_version": 0}]
    ),
    st.sampled_from([{}] * 6 + [{"partitions": 20}, {"configs": {"retention.ms": "1"}}]),
)


_ENTITIES = st.tuples(
    st.sampled_from([*USERS[:3], None, None, ABSENT]), st.sampled_from([*CLIENTS[:2], None, ABSENT, ABSENT])
).filter(lambda entity: entity != (ABSENT, ABSENT))

_CHANGES = st.builds(
    Change,
    _ENTITIES,
    st.sampled_from([1 / 3, 0.7, 2.5, 5.0, 20.0, None]),
    st.sampled_from([None, None, 10.0, 600.0]),
    st.integers(0, 60).map(lambda seconds: START + seconds * 1000),
)
_RESETS = st.builds(
    Reset,
    st.sampled_from([{"user": "alice"}, {"user": "bob"}, {"user": "ANONYMOUS"}, {"client-id": "app"}]),
    st.integers(0, 60).map(lambda seconds: START + seconds * 1000),
)


_CONTENTS = st.sampled_from([_requests()] * 5 + [_AGAIN] * 4 + [_BAD]).flatmap(lambda kind: kind)
_RECORDS = st.tuples(_GAPS, st.integers(0, _PARTITIONS - 1), _CONTENTS)


def logs() -> st.SearchStrategy[Log]:
    """Return a strategy of logs, with records in any partitions."""
    return st.builds(
        _log,
        st.sampled_from([Window(1, 1), Window(11, 1), Window(10, 2)]),
        st.lists(_RECORDS, min_size=_RECORDS_OF_A_LOG[0], max_size=_RECORDS_OF_A_LOG[1]),
        st.sampled_from([2.5, 5.0, 20.0]),
        st.lists(st.one_of(_CHANGES, _CHANGES, _RESETS), max_size=_MAX_CHANGES),
        st.sampled_from(_DEDUPLICATION),
    )


def _log(
    window: Window, records: list[tuple], default: float, changes: list[Change | Reset], rule: Deduplication
) -> Log:
    now, entries, requests = START, [], [_BEFORE_ALL]
    for gap, partition, content in records:
        now += gap
        value = content.of(requests) if isinstance(content, _Again) else content
        request, bad = (value, None) if isinstance(value, dict) else (None, value)
        requests += [request] if request else []
        entries.append(Entry(partition, now, request, bad))
    of_all = Change((None, ABSENT), default, None, 0)
    return Log(window, entries, [of_all, *sorted(changes, key=lambda change: change.moment)], rule)


def keyed(log: Log) -> Log:
    """Return the log as producers should write it: requests that may share a bucket are in one partition."""
    of_clients = [
        change.entity[1] for change in log.changes if isinstance(change, Change) and change.entity[0] == ABSENT
    ]
    together: dict[str, str] = {}

    def root(name: str) -> str:
        while name in together:
            name = together[name]
        return name

    partitions: dict[str, int] = {}
    requests = [entry for entry in log.entries if entry.request is not None]
    for entry in requests:
        client = entry.request.get("client_id") or "<none>"
        if {client, None} & set(of_clients):  # its bucket may be shared by users
            user, shared = root(f"user {entry.request['user']}"), root(f"client {client}")
            if user != shared:
                together[user] = shared
    for entry in requests:
        partitions.setdefault(root(f"user {entry.request['user']}"), entry.partition)
    placed = [
        entry if entry.request is None else replace(entry, partition=partitions[root(f"user {entry.request['user']}")])
        for entry in log.entries
    ]
    return replace(log, entries=placed)


def runs() -> st.SearchStrategy[Run]:
    """Return a strategy of runs that are cut."""
    return st.builds(
        Run,
        cuts=st.lists(st.integers(1, 19).map(lambda part: part / 20), min_size=1, max_size=3),
        state_partitions=st.integers(1, 4),
        batch_rows=st.sampled_from([1, 3, 1000]),
        arrival=st.integers(0, 2**16),
        restart_after=st.one_of(st.none(), st.integers(0, 3)),
        crash=st.booleans(),
        ways=st.tuples(st.booleans(), st.booleans()),
        knows_all=st.booleans(),
    )


def cases() -> st.SearchStrategy[tuple[Log, list[Run]]]:
    """Return a strategy of logs whose buckets have one partition each, run uncut and cut twice."""
    cut = st.lists(runs(), min_size=2, max_size=2)
    return st.tuples(logs().map(keyed), cut.map(lambda some: [Run(), *some]))


def shared_cases() -> st.SearchStrategy[tuple[Log, list[Run]]]:
    """Return a strategy of logs whose buckets have several partitions, with two runs of the same batches."""
    pairs = st.tuples(runs(), runs()).map(lambda two: [two[0], replace(two[1], cuts=two[0].cuts)])
    return st.tuples(logs(), pairs)


def is_demanding(log: Log, cut: Sequence[Run]) -> bool:
    """Return whether a case has what its length leaves to chance: invalid records, changes, a crash and late quotas.

    And the stateful stage with pandas, as with another release of PySpark, until a crash, and without it afterwards.
    """
    changed = {type(change) for change in log.changes[1:]}
    crashes = [run for run in cut if run.crash and run.restart_after in range(len(run.cuts))]
    return (
        changed == {Change, Reset}
        and any(entry.request is None for entry in log.entries)
        and any(run.state_partitions > 1 and run.ways == (False, True) for run in crashes)
        and any(not run.knows_all for run in cut)
    )
