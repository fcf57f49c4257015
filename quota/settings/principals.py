"""The names of users from principals, by rules in the syntax of `ssl.principal.mapping.rules`."""

import re
import warnings
from collections.abc import Callable
from functools import lru_cache, partial

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:[^/\\]|\\.)*)/((?:[^/\\]|\\.)*)/([LU]?))\s*(?:,|$)")
_REPLACEMENT = re.compile(r"\\(.)|\$([1-9]\d*)|([^\\$])", re.DOTALL)
_LINE_END = re.compile("[\n\r\u0085\u2028\u2029]")

_CASES: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper, "": str}
_CACHED = 100_000

_Replacement = list[str | int]
"""Texts, and numbers of groups."""


class PrincipalRules:
    """Rules that turn names into shorter ones; the first that matches a whole name applies."""

    def __init__(self, text: str = "DEFAULT") -> None:
        """Parse rules as brokers take them, such as `RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT`."""
        self._rules: list[tuple[re.Pattern[str] | None, _Replacement, Callable[[str], str]]] = []
        at = 0
        while at < len(text):
            match = _RULE.match(text, at)
            if match is None:
                raise ValueError(f"principal rules: expected RULE:pattern/replacement/[LU] or DEFAULT at {text[at:]!r}")
            at = match.end()
            default, pattern, replacement, case = match.groups()
            compiled = None if default else _compiled(pattern)
            self._rules.append((compiled, _parsed(replacement, compiled) if compiled else [], _CASES[case or ""]))
        self.user = lru_cache(_CACHED)(self._user)

    def name(self, principal: str) -> str | None:
        """Return the user of a principal; None if no rule matches, so that a broker rejects the client.

        A name with a line break has none either, unless the first rule is `DEFAULT`: Java and Python differ on it.
        """
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return principal
            if _LINE_END.search(principal):
                return None
            if pattern.fullmatch(principal):  # Kafka replaces each match, which need not be the whole name
                return case(pattern.sub(partial(_filled, replacement), principal))
        return None

    def _user(self, principal: str) -> str:
        """Return the user of a principal in a log, such as `alice` of `User:alice`, which a broker has accepted.

        The whole name where no rule matches.
        """
        name = principal.partition(":")[2] or principal
        user = self.name(name)
        return name if user is None else user


def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern with Java's meaning; what only Java knows, or reads otherwise, is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # sets in sets
        try:
            return re.compile(pattern, re.ASCII)
        except (re.error, FutureWarning) as error:
            raise ValueError(f"principal rules: {pattern!r} is not a regular expression: {error}") from None


def _parsed(replacement: str, pattern: re.Pattern[str]) -> _Replacement:
    parts: _Replacement = []
    at = 0
    while at < len(replacement):
        match = _REPLACEMENT.match(replacement, at)
        if match is None:
            raise ValueError(f"principal rules: {replacement!r} has a $ or a \\ without a meaning")
        escaped, digits, text = match.groups()
        at = match.end()
        if digits:  # $12 is the first group and a 2 where there are fewer than twelve
            size = next((length for length in range(len(digits), 0, -1) if int(digits[:length]) <= pattern.groups), 0)
            if not size:
                raise ValueError(f"principal rules: {replacement!r} names a group that {pattern.pattern!r} lacks")
            parts += [int(digits[:size]), digits[size:]]
        else:
            parts.append(escaped or text)
    return parts


def _filled(replacement: _Replacement, match: re.Match[str]) -> str:
    return "".join(part if isinstance(part, str) else match[part] or "" for part in replacement)
