"""Users of certificates are those that Kafka's own classes make of their subjects."""

import base64
import random
import subprocess
from pathlib import Path

from jobs.installation import jars_folder
from quota.gateway.certificates import encode, name_of, sequence
from quota.settings.principals import PrincipalRules
from tests.support.java_source import java_command

_SUBJECTS = 6000
_KINDS = {
    "CN": "550403",
    "C": "550406",
    "O": "55040a",
    "OU": "55040b",
    "UID": "0992268993f22c640101",
    "DC": "0992268993f22c640119",
    "emailAddress": "2a864886f70d010901",
    "serialNumber": "550405",
    "title": "55040c",
    "surname": "550404",
    "unknown": "2b0601040182ab12838f7f01",
    "2.999.3": "883703",
}
_UTF8, _PRINTABLE, _IA5, _T61, _BMP, _INTEGER = 0x0C, 0x13, 0x16, 0x14, 0x1E, 0x02
_PIECES = [
    *("alice", "Bob", "Example, Inc.", "a+b", "a=b", '"', "\\", "<x>", "#1", ";", " ", "  ", "\r", "\n", "\0", "/"),
    *("é", "ß", "İ", "Σ", "名", "\U0001f600", "\u2028", "\x85", "$1", "@", ":", "*", "'", "\t"),
]
_RULES = [
    "DEFAULT",
    "RULE:^CN=(.*?),OU=.*$/$1/,DEFAULT",
    "RULE:^CN=([^,]+).*$/$1/L,DEFAULT",
    "RULE:^.*OU=(.*?),O=(.*?)(,.*)?$/$1@$2/U, RULE:^UID=(.*)$/user-$1/",
    "RULE:(.*)/<$1>/",  # which Java finds twice: the whole name, and nothing at its end
    "RULE:CN=(.*?)/$1/",
    r"RULE:^(?:.*,)?emailAddress=#(\w+).*$/$1\$\//,RULE:.*1\.2\.840\.113549\.1\.9\.1=(#\w+).*/$1/",
    "RULE:(C)(N)=.*/$12-$2/,DEFAULT",
    r"RULE:^CN=((?:\\.|[^\\,+])*)([,+].*)?$/$1/",
    "RULE:(?i)^cn=(a.*)$/$1/",
    "RULE:^[a-zA-Z]+=(\\d+|\\w*)$/$1/L",
]


class Subjects:
    """Subjects of many kinds of attributes, from a seed."""

    def __init__(self, seed):
        self._chance = random.Random(seed)

    def subject(self):
        """Return a subject (DER)."""
        names = range(self._chance.choice([0, 1, 1, 2, 3, 5]))
        return sequence(*(self._relative() for _ in names))

    def _relative(self):
        attributes = range(self._chance.choice([1, 1, 1, 2, 3]))
        return encode(0x31, b"".join(self._attribute() for _ in attributes))

    def _attribute(self):
        kind = bytes.fromhex(self._chance.choice([*_KINDS.values(), *[_KINDS["CN"], _KINDS["OU"]] * 4]))
        text = "".join(self._chance.choice(_PIECES) for _ in range(self._chance.choice([0, 1, 1, 2, 3, 60])))
        tag = self._chance.choice([_UTF8, _UTF8, _UTF8, _PRINTABLE, _IA5, _T61, _BMP, _INTEGER])
        value = b"\5" if tag == _INTEGER else text.encode("utf-16-be" if tag == _BMP else "utf-8")
        return sequence(encode(0x06, kind), encode(tag, value))


def test_each_subject_has_the_name_and_the_user_that_it_has_at_a_broker(base_settings):
    """The same name, unless it cannot be read; the same user, or none where a name has a line break."""
    chance, subjects = random.Random(7), Subjects(599)
    asked = [(subjects.subject(), chance.choice(_RULES)) for _ in range(_SUBJECTS)]
    lines = [" ".join(base64.b64encode(part).decode() for part in (der, rules.encode())) for der, rules in asked]
    oracle = java_command(Path(__file__).with_name("SslPrincipalOracle.java"), jars_folder(base_settings.broker.jars))
    done = subprocess.run(oracle, input="\n".join(lines), capture_output=True, text=True, check=True)
    told = [[base64.b64decode(word).decode() for word in line.split(" ")] for line in done.stdout.splitlines()]
    assert len(told) == _SUBJECTS
    unread = unmapped = mapped = 0
    for (der, rules), (name, *users) in zip(asked, told, strict=True):
        try:
            ours = name_of(der)
        except ValueError:
            unread += 1
            continue
        assert ours == name, (der.hex(), name, ours)
        user = PrincipalRules(rules).name(ours)
        if user is None and users:
            assert set(name) & set("\n\r\x85\u2028"), (name, rules, users)
            unmapped += 1
        else:
            assert [user][: user is not None] == users, (name, rules, users, user)
            mapped += user is not None and user != name
    assert mapped > 500
    assert min(unread, unmapped) > 0
