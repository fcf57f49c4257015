"""Rows of the quota changes table: from records, and back to the quotas in time."""

import json

import pytest

from jobs.audit.quota_change_rows import record_to_row, row_to_record
from quota.records.quota_log import read_quota_log_record
from schemas import quota_changes

ALICE = {"entity": {"user": "alice"}}
GROUP = "quota.callbacks.groups.GroupQuotaCallback"
RECORDS = {
    "a quota": ALICE | {"controller_mutation_rate": 5.5, "altered_by": "ann", "comment": "why"},
    "one with all options": ALICE
    | {"controller_mutation_rate": 5, "controller_mutation_burst": 9, "max_debt_ms": 100, "shadow": True},
    "a part of one": ALICE | {"controller_mutation_rate": 5, "altered_configs": ["shadow"]},
    "none": ALICE | {"controller_mutation_rate": None},
    "the defaults": {"entity": {"user": None, "client-id": None}, "controller_mutation_rate": 5},
    "one for later": ALICE | {"controller_mutation_rate": 5, "effective_at": 2000},
    "a cancelled one": ALICE | {"controller_mutation_rate": 5, "effective_at": 2000, "cancelled": True},
    "one cancelled too late": ALICE | {"controller_mutation_rate": 5, "effective_at": 500, "cancelled": True},
    "a reset": {"bucket": {"user": "alice", "client-id": "app"}},
    "a callback": {"callback": {"class": GROUP, "configs": {"a": "b"}}, "altered_configs": ["a"]},
    "the settings' callback": {"callback": None},
    "a cluster": {"cluster": {"topics": {"t": [1, None]}}},
}


def row_of(fields, timestamp=1000):
    """The row of a record, with its timestamp; missing columns are null."""
    made = record_to_row(read_quota_log_record(json.dumps(fields).encode()), timestamp)
    return dict.fromkeys(quota_changes.TABLE.names) | {"timestamp": timestamp} | made


@pytest.mark.parametrize("fields", RECORDS.values(), ids=RECORDS.keys())
def test_each_record_is_read_as_it_was_written(fields):
    record = read_quota_log_record(json.dumps(fields).encode())
    found = row_to_record(row_of(fields))
    when = record.effective_at
    assert found.effective_at == (1000 if when is None else when if fields.get("cancelled") else max(1000, when))
    assert type(found) is type(record)
    stored = {name: getattr(found, name) for name in record.__struct_fields__ if name != "effective_at"}
    assert stored == {name: getattr(record, name) for name in record.__struct_fields__ if name != "effective_at"}


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="a quota change of kind 'tariff'"):
        row_to_record(row_of(ALICE | {"controller_mutation_rate": 5}) | {"kind": "tariff"})
