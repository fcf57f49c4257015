"""Arguments beyond Typer's own: groups of options, options that are given once, and errors in one line."""

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer
from pydantic import ValidationError
from typer.core import TyperCommand, TyperGroup

from quota.errors import BadInput
from quota.text import printable


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options are replaced by the options themselves.

    A parameter whose type is a dataclass is a group: each field is annotated as an option of Typer, or is the context.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    groups = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }
    own = {
        name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in parameters.items()
        if name not in groups
    }
    shared = {parameter.name: parameter for group in groups.values() for parameter in _parameters(group)}

    if twice := own.keys() & shared.keys():
        raise TypeError(f"{command.__name__}: {', '.join(sorted(twice))} is an option of a group, too")

    @functools.wraps(command)
    def run(**given: object) -> None:
        made = {
            name: group(**{field.name: given[field.name] for field in fields(group)}) for name, group in groups.items()
        }
        command(**{name: given[name] for name in own}, **made)

    everything: list[inspect.Parameter] = []
    for name in parameters:
        options = _parameters(groups[name]) if name in groups else [own[name]]
        everything += [option for option in options if option not in everything]
    run.__annotations__ = {option.name: option.annotation for option in everything}
    vars(run)["__signature__"] = inspect.Signature(everything)
    return run


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if hints[field.name] is typer.Context else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


class _SingleValues:
    """A part of commands and groups: an option that is not repeatable is rejected when it is given twice.

    In the help, a flag has no type.
    """

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 Typer's own are private
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for flag in (param for param in params if getattr(param, "is_flag", False)):
            flag.metavar = ""
        return params

    def make_parser(self, ctx: Any) -> Any:  # noqa: ANN401 Typer's own are private
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
    options = [parameter for parameter in given if parameter.param_type_name == "option"]
    single = Counter(option.opts[0] for option in options if not (option.multiple or option.is_flag))
    for name, count in single.items():
        if count > 1:
            raise BadInput(f"{name} takes one value, and is given {count} times")


def usage_message(error: typer.TyperException) -> str:
    """Return the message of an error, rewritten if Typer's message uses terms of its implementation."""
    parameter: Any = error.param if isinstance(error, typer.BadParameter) else None
    if parameter is None or not error.message:
        return error.format_message() + _advice(error, parameter)
    name = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
    if not isinstance(error.__cause__, ValidationError):
        return f"{name} {error.message}"
    value = printable(str(error.__cause__.errors()[0]["input"]))
    return f"{name} {value}: expected {_expected(parameter)}"


def _advice(error: typer.TyperException, parameter: Any) -> str:  # noqa: ANN401
    """Return what a missing value is, or the commands of the group that has no such command."""
    if parameter is not None:
        described = getattr(parameter, "help", None) or ""
        return f" {described.partition('. ')[0].rstrip('.')}." if described else ""
    group: Any = getattr(getattr(error, "ctx", None), "command", None)
    message = error.format_message()
    if not (isinstance(group, TyperGroup) and message.startswith("No such command") and message.endswith("'.")):
        return ""
    return f" There are: {', '.join(group.commands)}."


def _expected(parameter: Any) -> str:  # noqa: ANN401 Typer's types are private
    kind = parameter.type_descriptor
    if kind.is_choice:
        *others, last = (str(getattr(choice, "value", choice)) for choice in kind.choices)
        return f"{', '.join(others)} or {last}"
    number = "a number" if kind.annotation is float else "a whole number"
    return f"{number}, {limits}" if (limits := range_text(parameter)) else number


def range_text(parameter: Any) -> str:  # noqa: ANN401
    """Return the range of a number; empty if it has none."""
    if parameter.min is None:
        return ""
    return f"at least {parameter.min}" if parameter.max is None else f"{parameter.min} to {parameter.max}"
