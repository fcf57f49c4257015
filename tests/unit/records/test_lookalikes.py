"""Names that look alike, or contain separators: each is a separate principal, and is displayed differently."""

import unicodedata

import pytest

from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadRecord
from quota.records.entity import QuotaEntity
from quota.records.fields import BEGINNING
from quota.records.quota import Window
from quota.records.request import read_request
from quota.text import format_tags, legible, quoted
from quota.whatif.simulation import simulate
from tests.support.factories import request_json, timeline

LOOKALIKES = [
    "alice",
    "Alice",
    "alice ",
    "\u0430lice",  # Cyrillic a
    "al\u0456ce",  # Ukrainian i
    "ali\u200bce",  # zero width space
    "\ufeffalice",  # zero width no-break space
    "\u202eecila",  # right-to-left override
    "\uff41lice",  # full width a
    "ali\u00adce",  # soft hyphen
]
ACCENTS = [unicodedata.normalize(form, "müller") for form in ("NFC", "NFD")]
SEPARATORS = ['a","b', "a", "b", 'a"', "a\\", '["a', "a,b", "a\x00", "a\x00b", "a\n", "a/b", "a|b", "null", "<default>"]
NAMES = [*LOOKALIKES, *ACCENTS, *SEPARATORS]


def test_each_name_is_a_separate_user_with_its_own_bucket():
    """Each spends the same burst of 11 down to -1; a shared bucket would refuse the second."""
    requests = [request_json(12, user=user, timestamp=0) for user in NAMES]
    found = list(simulate(requests, timeline((QuotaEntity(None), 1.0, BEGINNING)), TokenBucket(Window())))
    assert [(each.user, each.user_tag, each.tokens) for each in found] == [(user, user, -1.0) for user in NAMES]


def test_all_names_are_displayed_differently():
    """Displayed names differ in visible ASCII characters."""
    for show in (quoted, lambda name: str(QuotaEntity(name)), lambda name: format_tags({"user": name})):
        seen = [show(name).encode("ascii", "ignore").decode() for name in NAMES]
        assert len(set(seen)) == len(NAMES)
        assert all(each.isprintable() for each in seen)


def test_all_names_are_displayed_differently_on_the_dashboard():
    names = ["alice", "\u0430lice", "\x1b[2Jalice"]
    assert [legible(name) for name in names] == ["alice", "'\u0430lice' (spelled '\\u0430lice')", "'\\x1b[2Jalice'"]


@pytest.mark.parametrize(
    ("surrogate", "error"),
    [
        (b"\\ud800", "value: not JSON"),
        (b"\xed\xa0\x80", "value: not UTF-8"),
    ],
)
def test_a_lone_surrogate_is_not_a_name(surrogate, error):
    """It could not be written to any topic, nor distinguished from others once it is replaced."""
    with pytest.raises(BadRecord, match=error):
        read_request(request_json(1).replace(b'"alice"', b'"' + surrogate + b'"'))
