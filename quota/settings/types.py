"""What a setting may be, and what all sections of them have in common."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StringConstraints

from quota.settings.security import SECTION


def _split(names: object) -> object:
    """Several names in one text, as an option or the environment gives them."""
    return [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else names


def _pattern(text: str) -> str:
    try:
        re.compile(text.replace("{user}", "").replace("{client_id}", ""))
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


Memory = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[mg]$")]
Name = Annotated[str, StringConstraints(min_length=1)]
Pattern = Annotated[str, AfterValidator(_pattern)]
NameList = Annotated[list[Name], BeforeValidator(_split)]
TopicName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, Field(ge=0, le=86_400)]


class Section(BaseModel):
    """Settings under one name; an unknown one is an error."""

    model_config = SECTION


def in_bytes(memory: str) -> int:
    """A memory setting such as 512m or 1g, in bytes."""
    return int(memory[:-1]) * {"m": 2**20, "g": 2**30}[memory[-1]]
