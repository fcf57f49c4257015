"""The names of users from the principals in a log, by rules in the syntax of `ssl.principal.mapping.rules`."""

import re
from collections.abc import Callable
from functools import lru_cache

from quota.errors import BadInput

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:[^/\\]|\\.)*)/((?:[^/\\]|\\.)*)/([LU]?))\s*(?:,|$)")
_GROUP = re.compile(r"\$(\d+)")

_CASES: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper, "": str}
_CACHED = 100_000


class PrincipalRules:
    """Rules that turn names into shorter ones; the first that matches a whole name applies."""

    def __init__(self, text: str = "DEFAULT") -> None:
        """Parse rules as brokers take them, such as `RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT`."""
        self._rules: list[tuple[re.Pattern[str], str, Callable[[str], str]]] = []
        at = 0
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                raise BadInput(f"principal rules: expected RULE:pattern/replacement/[LU] or DEFAULT at {text[at:]!r}")
            at = found.end()
            default, pattern, replacement, case = found.groups()
            try:
                compiled = re.compile("(.*)" if default else pattern, re.DOTALL)
            except re.error as error:
                raise BadInput(f"principal rules: {pattern!r} is not a regular expression: {error}") from None
            if max(map(int, _GROUP.findall(replacement or "")), default=0) > compiled.groups:
                raise BadInput(f"principal rules: {replacement!r} names a group that {pattern!r} does not have")
            self._rules.append((compiled, "$1" if default else replacement, _CASES[case or ""]))
        self.user = lru_cache(_CACHED)(self._user)

    def _user(self, principal: str) -> str:
        """Return the user of a principal, such as `alice` of `User:alice`; the whole name where no rule matches."""
        name = principal.partition(":")[2] or principal
        for pattern, replacement, case in self._rules:
            if found := pattern.fullmatch(name):
                return case(_filled(replacement, found))
        return name


def _filled(replacement: str, found: re.Match[str]) -> str:
    """Return a replacement with its $1, $2 and so on filled in."""
    return _GROUP.sub(lambda group: found[int(group[1])] or "", replacement)
