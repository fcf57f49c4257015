"""The settings by which brokers' request logs are read."""

import socket
from collections.abc import Callable
from datetime import tzinfo
from typing import Annotated

from pydantic import AfterValidator, Field

from quota.errors import BadInput
from quota.observation.log_time import parse_zone
from quota.observation.principals import PrincipalRules
from quota.settings.types import Name, Section


def _checked_by(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator of texts that a function can parse."""

    def check(text: str) -> str:
        try:
            parse(text)
        except BadInput as error:
            raise ValueError(str(error)) from None
        return text

    return AfterValidator(check)


class ObserveSettings(Section):
    """Reading the request logs of brokers."""

    time_zone: Annotated[Name, _checked_by(parse_zone)] = "UTC"
    """Time zone of the logs' times, where they name none: that of the brokers, such as `Europe/Berlin`."""

    principal_mapping_rules: Annotated[Name, _checked_by(PrincipalRules)] = "DEFAULT"
    """Rules from principals to users, as Kafka's `ssl.principal.mapping.rules`. By default, `User:alice` is `alice`."""

    default_partitions: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """`num.partitions` of the brokers, up to 1,000,000, for logs that do not contain it. 0: unknown."""

    group: str = ""
    """Name of this observer. One observer of a name is active: the one started last. Empty for `observe-` and the
    host's name."""

    @property
    def zone(self) -> tzinfo:
        """The time zone."""
        return parse_zone(self.time_zone)

    @property
    def group_name(self) -> str:
        """The name of the observer."""
        return self.group or f"observe-{socket.gethostname()}"
