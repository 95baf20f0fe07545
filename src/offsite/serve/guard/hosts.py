"""The allowed host names of the server. A foreign page can make a browser send requests to the server, under a foreign
name (DNS rebinding) or from a foreign origin: both are refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Names, without ports."""

    names: frozenset[str]

    @classmethod
    def of(cls, names: Iterable[str]) -> Hosts:
        return cls(names=frozenset(name.lower() for name in names) | LOOPBACK_NAMES)

    def allow(self, host: str) -> bool:
        """Whether the Host header `host` names this server."""
        return name_of(f"//{host}") in self.names

    def allow_origin(self, origin: str, host: str) -> bool:
        """Whether a page of `origin` may send a change to `host`: only a page of this server may."""
        try:
            return urlsplit(origin).netloc.lower() == host.lower() and self.allow(host)
        except ValueError:  # not a browser's origin
            return False


def name_of(address: str) -> str:
    """Return the host name in an address; empty if there is none, or the address has other parts."""
    try:
        parts = urlsplit(address)
        _ = parts.port
        is_bare = parts.username is None and parts.path == "" and not parts.query and not parts.fragment
        return (parts.hostname or "").lower() if is_bare else ""
    except ValueError:
        return ""
