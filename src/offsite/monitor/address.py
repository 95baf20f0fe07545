"""The listen address of a monitor, as a person writes it: a port, or a host and a port."""

from __future__ import annotations

import re
from dataclasses import dataclass

from offsite.model.bounds import whole_number
from offsite.model.errors import BadOption

LOOPBACK = "127.0.0.1"
_PORT_MAX = 65535
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]/@]+)):(?P<port>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Host and TCP port. Port 0 means a free port."""

    host: str = LOOPBACK
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> ListenAddress:
    """Parse `9090` (the local machine only), `0.0.0.0:9090` or `[::]:9090`. Raises `BadOption`."""
    match = _ADDRESS.fullmatch(text)
    host, digits = ((match["six"] or match["host"]), match["port"]) if match else (LOOPBACK, text)
    port = whole_number(digits, most=_PORT_MAX)
    if port is None:
        raise BadOption(f"{text[:100]!r} is neither a port nor host:port", hint="write it as 9464 or 0.0.0.0:9464")
    return ListenAddress(host=host, port=port)
