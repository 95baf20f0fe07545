"""Sessions of browsers: a signed cookie instead of the token, and a secret word in every form of our pages.

A session holds a name and its end; the token and role of the name are looked up for every request. The key is drawn at
the start of a coordinator, so sessions end with the coordinator; several coordinators behind one address share a key
file. Every coordinator remembers early ended sessions itself: up to a limit per name one by one, then all sessions of
the name.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable

COOKIE = "offsite_session"
LASTS_S = 12 * 60 * 60
_PARTS = 4
_ENDED_MAX = 100


class Sessions:
    """Creates and reads sessions. `now_s`: seconds since the epoch, by the clock of the local machine."""

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
