"""Errors of arguments as one line: the option, its value, and what is expected."""

from typing import Any

import typer
from pydantic import ValidationError

from quota.text import printable


def usage_message(error: typer.TyperException) -> str:
    """Return the message of an error, rewritten if Typer's message uses terms of its implementation."""
    parameter: Any = error.param if isinstance(error, typer.BadParameter) else None
    if parameter is None or not error.message:
        return error.format_message()
    name = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
    if not isinstance(error.__cause__, ValidationError):
        return f"{name} {error.message}"
    value = printable(str(error.__cause__.errors()[0]["input"]))
    return f"{name} {value}: expected {_expected(parameter)}"


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
