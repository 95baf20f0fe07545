"""By which names this server may be called. A page of somebody else's can let a browser ask us, under a name of its own
that leads here (DNS rebinding), or from its own origin: both are refused."""

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
        return cls(names=frozenset(each.lower() for each in names) | LOOPBACK_NAMES)

    def allow(self, host: str) -> bool:
        """Whether the Host header `host` names us."""
        return name_of(f"//{host}") in self.names

    def allow_origin(self, origin: str, host: str) -> bool:
        """Whether a page of `origin` may change something by a request to `host`: only one of ours may."""
        try:
            return urlsplit(origin).netloc.lower() == host.lower() and self.allow(host)
        except ValueError:  # no origin that a browser has
            return False


def name_of(address: str) -> str:
    """The name in an address, empty where there is none that counts."""
    try:
        parts = urlsplit(address)
        _ = parts.port
        is_bare = parts.username is None and parts.path == "" and not parts.query and not parts.fragment
        return (parts.hostname or "").lower() if is_bare else ""
    except ValueError:
        return ""
