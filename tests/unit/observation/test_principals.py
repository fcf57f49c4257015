"""Users by principals; the rules' own examples are Kafka's documentation's."""

import pytest

from quota.errors import BadInput
from quota.observation.principals import PrincipalRules

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        ("DEFAULT", "User:alice", "alice"),
        ("DEFAULT", "User:CN=alice,OU=x", "CN=alice,OU=x"),
        ("DEFAULT", "alice", "alice"),
        (RULES, "User:CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        (RULES, "User:CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        (RULES, "User:ou=x,cn=Bob.X,o=y", "bob.x"),
        ("RULE:^(.*)@EXAMPLE.COM$/$1/U", "User:alice@EXAMPLE.COM", "ALICE"),
        ("RULE:^(.*)@EXAMPLE.COM$/$1/U", "User:alice", "alice"),
        (r"RULE:^a\/(.*)$/$1/", "User:a/b", "b"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_applies(rules, principal, user):
    assert PrincipalRules(rules).user(principal) == user


@pytest.mark.parametrize(
    "rules", ["nonsense", "RULE:a", "RULE:(/x/", "DEFAULT;DEFAULT", "RULE:^a$/b/X", "RULE:^(a)$/$2/"]
)
def test_an_invalid_rule_is_rejected(rules):
    with pytest.raises(BadInput, match="principal rules: "):
        PrincipalRules(rules)
