"""A fresh client-id for each request: which layouts of quotas it passes by."""

import pytest
from msgspec import UNSET

from quota.entity import QuotaEntity
from quota.loopholes import loopholes
from tests.unit.test_simulate import run

NEW_BUCKET, NO_QUOTA = "gets a full bucket with each new client-id", "has no quota with a client-id that none names"


@pytest.mark.parametrize(
    ("entities", "expected"),
    [
        ([], [("a user whom no quota names", NO_QUOTA)]),
        ([QuotaEntity(None)], []),
        ([QuotaEntity(None), QuotaEntity("alice")], []),
        ([QuotaEntity("alice")], [("a user whom no quota names", NO_QUOTA)]),
        ([QuotaEntity(None), QuotaEntity("alice", "app")], []),
        ([QuotaEntity(None), QuotaEntity("alice", None)], [("user 'alice'", NEW_BUCKET)]),
        ([QuotaEntity(None, None)], [("a user whom no quota names", NEW_BUCKET)]),
        ([QuotaEntity(None, None), QuotaEntity(None)], [("a user whom no quota names", NEW_BUCKET)]),
        ([QuotaEntity(None, None), QuotaEntity("alice")], [("a user whom no quota names", NEW_BUCKET)]),
        ([QuotaEntity(UNSET, None)], [("a user whom no quota names", NEW_BUCKET)]),
        ([QuotaEntity(UNSET, "app")], [("a user whom no quota names", NO_QUOTA)]),
        (
            [QuotaEntity("alice", "app")],
            [("user 'alice'", NO_QUOTA), ("a user whom no quota names", NO_QUOTA)],
        ),
        ([QuotaEntity(None, "app"), QuotaEntity(None)], []),
    ],
)
def test_who_can_pass_quotas_by(entities, expected):
    found = loopholes(entities)
    assert len(found) == len(expected)
    for text, (who, how) in zip(found, expected, strict=True):
        assert text.startswith(f"{who} {how}")


def test_what_stops_it_is_told():
    (found,) = loopholes([QuotaEntity(None), QuotaEntity("alice", None)])
    assert found == (
        "user 'alice' gets a full bucket with each new client-id, by the quota of "
        "user-principal 'alice', the default client-id; set one for the user alone, without a client-id, in its place"
    )


def test_validate_warns_of_them(tmp_path):
    file = tmp_path / "quotas.yaml"
    file.write_text("quotas:\n  - user-defaults: true\n    client-defaults: true\n    controller_mutation_rate: 1\n")
    done = run("quotas", "validate", str(file), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{file}: 1 quotas, valid\n")
    assert done.stderr.startswith("warning: a user whom no quota names gets a full bucket with each new client-id")
