"""The base of all sections, and the types of values that they share."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints


class Section(BaseModel):
    """A section of the settings. Unknown keys are errors; pydantic's errors show no values, which may be secrets."""

    # Spark workers import settings for type annotations only; deferring the validators saves each of them 27 ms.
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True, defer_build=True
    )


def _split(names: object) -> object:
    """Split comma-separated names, the form in which an option or the environment gives a list."""
    return [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else names


def _check_pattern(text: str) -> str:
    try:
        re.compile(text.replace("{user}", "").replace("{client_id}", ""))
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


Memory = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[mg]$")]
Name = Annotated[str, StringConstraints(min_length=1)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]
NameList = Annotated[list[Name], BeforeValidator(_split)]
TopicName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, Field(ge=0, le=86_400)]


def in_bytes(memory: str) -> int:
    """Return a memory setting such as `512m` or `1g` in bytes."""
    return int(memory[:-1]) * {"m": 2**20, "g": 2**30}[memory[-1]]
