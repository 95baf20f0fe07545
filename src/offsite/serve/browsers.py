"""What protects a browser: the allowed host names, sessions, and the code in the login address."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

COOKIE = "offsite_session"
LASTS_S = 12 * 60 * 60
_PARTS = 4
_ENDED_MAX = 100


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


class Sessions:
    """Creates and reads sessions. `now_s`: seconds since the epoch, by the clock of the local machine.

    A session is a signed cookie instead of the token, and a secret word in every form of our pages. A session holds a
    name and its end; the token and role of the name are looked up for every request. The key is drawn at the start of a
    coordinator, so sessions end with the coordinator; several coordinators behind one address share a key file. Every
    coordinator remembers early ended sessions itself: up to a limit per name one by one, then all sessions of the name.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._ended: dict[str, dict[str, int]] = {}
        self._ended_upto_s: dict[str, int] = {}

    def begin(self, name: str, *, now_s: int, of: str = "") -> str:
        """Return the cookie of a new session of `name`. `of`: hash of the token; the session ends with the token."""
        text = f"{name}|{now_s + LASTS_S}|{secrets.token_hex(8)}"
        return f"{text}|{self._sign('session', f'{text}|{of}')}"

    def name(self, cookie: str, *, now_s: int, of: Callable[[str], str] = lambda _: "") -> str | None:
        """Return the name of a session; None for an invalid or ended session. `of`: returns the hash of the token of a
        name."""
        parts = cookie.split("|")
        if len(parts) != _PARTS or not hmac.compare_digest(
            self._sign("session", "|".join([*parts[:-1], of(parts[0])])).encode(), parts[-1].encode("utf-8", "replace")
        ):
            return None
        is_ended = parts[-1] in self._ended.get(parts[0], ()) or int(parts[1]) <= self._ended_upto_s.get(parts[0], 0)
        return parts[0] if int(parts[1]) > now_s and not is_ended else None

    def end(self, cookie: str, *, now_s: int, of: Callable[[str], str] = lambda _: "") -> None:
        """End a session early: a copy of its cookie is void, too. Invalid cookies are not remembered: a stranger can
        invent any number."""
        if (name := self.name(cookie, now_s=now_s, of=of)) is None:
            return
        parts = cookie.split("|")
        with self._lock:
            ended_sessions = {
                signature: until_s for signature, until_s in self._ended.get(name, {}).items() if until_s > now_s
            }
            ended_sessions[parts[-1]] = int(parts[1])
            if len(ended_sessions) > _ENDED_MAX:
                self._ended_upto_s[name], ended_sessions = max(ended_sessions.values()), {}
            self._ended[name] = ended_sessions

    def form_word(self, cookie: str) -> str:
        """Return the secret word of the forms of a session. Without a session (`cookie` empty): the word of this
        coordinator."""
        return self._sign("form", cookie)

    def is_form_word(self, word: str, cookie: str) -> bool:
        return hmac.compare_digest(self.form_word(cookie).encode(), word.encode("utf-8", "replace"))

    def _sign(self, use: str, text: str) -> str:
        return hmac.new(self._key, f"{use}|{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


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
