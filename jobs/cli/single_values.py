"""Options with a single value, which may be given once: Click would take the last value without a word."""

from collections import Counter
from typing import Any

from typer.core import TyperCommand, TyperGroup

from quota.errors import BadInput


class _SingleValues:
    """A part of commands and groups: an option that is not repeatable is refused when it is given twice."""

    def make_parser(self, ctx: Any) -> Any:  # noqa: ANN401 Typer's own are private
        """Return the parser of the arguments."""
        parser: Any = super().make_parser(ctx)  # type: ignore[misc]
        parse = parser.parse_args

        def parse_once(args: list[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
            values, rest, order = parse(args=args)
            if not ctx.resilient_parsing:  # as for the completion of a line
                _check_repeats(order)
            return values, rest, order

        parser.parse_args = parse_once
        return parser


class SingleValuesCommand(_SingleValues, TyperCommand):
    """A command."""


class SingleValuesGroup(_SingleValues, TyperGroup):
    """A group of commands."""


def _check_repeats(given: list[Any]) -> None:
    """Check the parameters in the order in which they are given."""
    options = [each for each in given if each.param_type_name == "option"]
    single = Counter(option.opts[0] for option in options if not (option.multiple or option.is_flag))
    for name, count in single.items():
        if count > 1:
            raise BadInput(f"{name} takes one value, and is given {count} times")
