"""Groups of options: a command takes a dataclass, whose fields are options of the command line."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options are replaced by the options themselves.

    A parameter whose type is a dataclass is a group: each field is annotated as an option of Typer, or is the context.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    groups = {
        name: each.annotation
        for name, each in parameters.items()
        if isinstance(each.annotation, type) and is_dataclass(each.annotation)
    }
    own = {
        name: each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in parameters.items()
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
    run.__annotations__ = {each.name: each.annotation for each in everything}
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
