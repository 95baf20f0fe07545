"""What protects a browser: the allowed host names, and the code in the login address."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Names, without ports.

    A foreign page can make a browser send requests to the server, under a foreign name (DNS rebinding) or from a
    foreign origin: both are refused.
    """

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


class LoginCode:
    """The valid code. `tell` is called with every code, and shows the code to the owner.

    A coordinator without tokens prints a login address for its owner. A terminal puts an opened address on the command
    line of a browser, readable for every user of the machine, and a browser keeps the address in its history. Hence a
    code starts one session, and afterwards a new code is printed.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._lock, self._code = tell, threading.Lock(), ""

    def renew(self) -> None:
        """Draw a code and show the code; the former code is void."""
        fresh = self._code = secrets.token_urlsafe(32)
        self._tell(fresh)

    def use(self, code: str) -> bool:
        """Return whether `code` is the valid code; if so, show the next code, which may wait for a terminal."""
        with self._lock:
            is_right = bool(self._code) and hmac.compare_digest(self._code.encode(), code.encode("utf-8", "replace"))
            if is_right:
                self._code = ""
        if is_right:
            self.renew()
        return is_right
