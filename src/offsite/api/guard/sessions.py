"""Sessions of browsers: a signed cookie instead of the token, and a word in each form that only our pages know.

A session holds a name and when it ends; whether the name still has a token, and which role, is looked up each time. The
key is drawn when a coordinator starts, so sessions end with it; several behind one address share a key file, and each
knows for itself which sessions were ended before their time: so many of each name one by one, then all of that name.
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
    """Makes and reads sessions. `now_s` are seconds since the epoch, by the clock of this machine."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._ended: dict[str, dict[str, int]] = {}
        self._ended_upto_s: dict[str, int] = {}

    def begin(self, name: str, *, now_s: int, of: str = "") -> str:
        """The cookie of a new session of `name`, begun with the token whose hash is `of`: it ends with that token."""
        text = f"{name}|{now_s + LASTS_S}|{secrets.token_hex(8)}"
        return f"{text}|{self._sign('session', f'{text}|{of}')}"

    def name(self, cookie: str, *, now_s: int, of: Callable[[str], str] = lambda _: "") -> str | None:
        """Whose session it is, None where it is none of ours or over. `of`: the hash of the token that a name has."""
        parts = cookie.split("|")
        if len(parts) != _PARTS or not hmac.compare_digest(
            self._sign("session", "|".join([*parts[:-1], of(parts[0])])).encode(), parts[-1].encode("utf-8", "replace")
        ):
            return None
        is_ended = parts[-1] in self._ended.get(parts[0], ()) or int(parts[1]) <= self._ended_upto_s.get(parts[0], 0)
        return parts[0] if int(parts[1]) > now_s and not is_ended else None

    def end(self, cookie: str, *, now_s: int, of: Callable[[str], str] = lambda _: "") -> None:
        """End a session before its time: whoever has a copy of its cookie is shut out, too. What is no session of ours
        is not remembered: anybody can make up as many as he likes."""
        if (name := self.name(cookie, now_s=now_s, of=of)) is None:
            return
        parts = cookie.split("|")
        with self._lock:
            ended = {each: until_s for each, until_s in self._ended.get(name, {}).items() if until_s > now_s}
            ended[parts[-1]] = int(parts[1])
            if len(ended) > _ENDED_MAX:
                self._ended_upto_s[name], ended = max(ended.values()), {}
            self._ended[name] = ended

    def form_word(self, cookie: str) -> str:
        """What each form of this session holds. Without a session (`cookie` empty) it is that of this coordinator."""
        return self._sign("form", cookie)

    def is_form_word(self, word: str, cookie: str) -> bool:
        return hmac.compare_digest(self.form_word(cookie).encode(), word.encode("utf-8", "replace"))

    def _sign(self, use: str, text: str) -> str:
        return hmac.new(self._key, f"{use}|{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
