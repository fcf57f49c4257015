"""What a query in PromQL asks for: its metrics, and the labels that it names. A careful reader, and no whole parser."""

import re
from itertools import pairwise

AGGREGATIONS = {"sum", "max", "min", "avg", "count", "topk", "bottomk"}
FUNCTIONS = {"rate", "increase", "changes", "max_over_time", "histogram_quantile", "time", "absent", "label_values"}
WORDS = {"and", "or", "unless", "bool"}
GROUPINGS = {"by", "without", "on", "ignoring", "group_left", "group_right"}

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<matcher>=~|!~|!=(?=")|=(?="))
    |(?P<operator>[-+*/%^]|[<>]=?|==|!=)
    |(?P<mark>[(){},])""",
    re.VERBOSE,
)


def asked_for(query):
    """The metrics and the labels of a query.

    Raises:
        ValueError: something in it is none of PromQL, or its brackets do not match.
    """
    tokens = [(kind, text) for kind, text in _tokens(query) if kind != "space"]
    metrics, labels, open_marks = set(), set(), []
    grouping = False
    for (kind, text), (_, following) in pairwise([*tokens, ("end", "")]):
        if text in {"(", "{"}:
            open_marks.append("labels" if text == "{" or grouping else "(")
        elif text in {")", "}"} and not open_marks:
            raise ValueError(f"{text} too many in {query}")
        elif text in {")", "}"}:
            open_marks.pop()
        elif kind == "name" and open_marks[-1:] == ["labels"]:
            labels.add(text)
        elif kind == "name" and not _is_word(text, following):
            metrics.add(text)
        grouping = text in GROUPINGS
    if open_marks:
        raise ValueError(f"brackets that are not closed in {query}")
    return metrics, labels


def _is_word(name, following):
    """Whether a name is PromQL's own, by what follows it."""
    called = following == "(" or (name in AGGREGATIONS and following in GROUPINGS)
    return name in WORDS | GROUPINGS or (called and name in AGGREGATIONS | FUNCTIONS)


def _tokens(query):
    place = 0
    while place < len(query):
        match = _TOKEN.match(query, place)
        if match is None:
            raise ValueError(f"{query[place:]} is no PromQL")
        yield match.lastgroup, match[0]
        place = match.end()
