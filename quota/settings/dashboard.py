"""The settings of the dashboard."""

import ipaddress
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from quota.settings.gateway import MAX_PORT
from quota.settings.security.files import SecretFile
from quota.settings.types import Name, NameList, Section

_MIN_TOKEN_CHARS = 16


class DashboardSettings(Section):
    """The dashboard: a page that shows requests, tenants and quotas as they change."""

    port: Annotated[int, Field(ge=0, le=MAX_PORT)] = 8599
    """Port of the page, up to 65,535. 0 takes any free port."""

    address: Name = "127.0.0.1"
    """IP address to listen on. Any other than this machine's loopback addresses needs `token_file`."""

    hosts: NameList = []
    """Host names by which browsers may reach the page, besides its address and localhost. Separated by commas."""

    token_file: SecretFile = ""
    """Path of a file with only a token of 16 or more characters, which a browser must present."""

    max_decisions: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    """Number of decisions of the last hour, 100 to 1,000,000, that can be explained, and decided again with another
    quota."""

    @property
    def token(self) -> str:
        """The token, without white space around it; empty if none is needed.

        Raises:
            OSError: the file cannot be read.
        """
        return Path(self.token_file).read_text(encoding="utf-8").strip() if self.token_file else ""

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can reach the page."""
        return ipaddress.ip_address(self.address).is_loopback

    @model_validator(mode="after")
    def _is_guarded(self) -> Self:
        try:
            local = self.is_local
        except ValueError:
            raise ValueError(f"address: {self.address!r} is not an IP address, such as 127.0.0.1 or 0.0.0.0") from None
        if not (local or self.token_file):
            raise ValueError(
                f"address: {self.address} is reachable from other machines, which requires token_file; "
                "dashboard --token-file FILE sets it, too"
            )
        if self.token_file and len(self.token) < _MIN_TOKEN_CHARS:
            raise ValueError(f"token_file: its token has fewer than {_MIN_TOKEN_CHARS} characters")
        return self
