"""Users by rules in the syntax of `ssl.principal.mapping.rules`."""

import pytest

from quota.settings.principals import PrincipalRules

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


def test_a_name_without_a_rule_or_with_a_line_break_has_no_user():
    """A broker would reject the former; Java and Python could map the latter differently."""
    rules = PrincipalRules("RULE:^CN=(.*)$/$1/")
    assert [rules.name(name) for name in ("CN=a", "O=a", "CN=a\u2028b")] == ["a", None, None]
    assert PrincipalRules().name("CN=a\nb") == "CN=a\nb"


ONLY_JAVA = [r"RULE:^\p{L}+$/x/", "RULE:^[[a]b]$/x/", "RULE:^[a-z&&[^b]]$/x/", "RULE:^a$/$/", r"RULE:^a$/b\\\/"]


@pytest.mark.parametrize(
    "rules", ["nonsense", "RULE:a", "RULE:(/x/", "DEFAULT;DEFAULT", "RULE:^a$/b/X", "RULE:^(a)$/$2/", *ONLY_JAVA]
)
def test_an_invalid_rule_is_rejected(rules):
    with pytest.raises(ValueError, match="principal rules: "):
        PrincipalRules(rules)
