"""Sessions of browsers: signed cookies, and the sessions that ended early.

A session is a signed cookie instead of the token, and a secret word in every form of our pages. A session holds a name
and times; rights are looked up for every request. It ends with what its rights rest on (a line of the token file, a
line of rights), after a time without use, and after an absolute time. Use gives the browser a newer cookie of the same
session.

The key is drawn at the start of a coordinator, so sessions end with the coordinator. Several coordinators behind one
address share a key file. Beside the key file lies the file of ended sessions: a session that was logged out stays dead
after a restart, and at every coordinator that reads the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from offsite.model.ids import random_id
from offsite.model.journal import warned
from offsite.serve.watched_file import FileState, state_of

COOKIE = "offsite_session"
LASTS_S = 12 * 60 * 60
IDLE_S = 2 * 60 * 60
RENEWED_EACH_S = 60
"""Seconds of use after which the browser gets a newer cookie."""
_VERSION = "2"
_PARTS = 7
"""Of a cookie, between its version and its signature."""
_ENDED_MAX = 100
"""Ended sessions that are remembered one by one for each name: then all sessions of the name end."""
_ALL = "*"
_ENDED_PARTS = 4
_ENDED_BYTES_MAX = 4 * 1024 * 1024
"""Of the file of ended sessions: 40,000 sessions, of hundreds of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`grant`: what gave the rights, if not a token: see `oidc.rights`. `tie`: keyed hash of what the rights rest on.
    `is_secure`: whether the browser used TLS. Times in seconds since the epoch, by the clock of the local machine."""

    id: str
    name: str
    grant: str
    tie: str
    is_secure: bool
    begun_s: int
    seen_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """`lasts_s`: from the login. `idle_s`: from the last use."""

    lasts_s: int = LASTS_S
    idle_s: int = IDLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSession:
    """`id` `*`: all sessions of the name that had begun by `begun_s`. `until_s`: later the session would have ended by
    itself."""

    name: str
    id: str
    begun_s: int
    until_s: int


class Sessions:
    """Creates, reads and ends sessions. `ended_file`: None: a coordinator remembers ended sessions itself."""

    def __init__(
        self, key: bytes | None = None, *, limits: SessionLimits | None = None, ended_file: Path | None = None
    ) -> None:
        self._key, self.limits = key or secrets.token_bytes(32), limits or SessionLimits()
        self._ended = EndedSessions(ended_file)

    def begin(self, name: str, *, now_s: int, of: str = "", grant: str = "", is_secure: bool = False) -> str:
        """Return the cookie of a new session of `name`. `of`: what the rights rest on, such as the hash of the token:
        the session ends with it."""
        session = Session(
            id=secrets.token_hex(16),
            name=name,
            grant=grant,
            tie=self._tie(of),
            is_secure=is_secure,
            begun_s=now_s,
            seen_s=now_s,
        )
        return self._cookie(session)

    def read(self, cookie: str, *, now_s: int) -> Session | None:
        """Return the session of a cookie; None for an invalid or ended session. The caller must check `is_tied`."""
        session = self._parse(cookie)
        if session is None or self._ended.include(session):
            return None
        is_over = now_s - session.begun_s >= self.limits.lasts_s or now_s - session.seen_s >= self.limits.idle_s
        return None if is_over else session

    def is_tied(self, session: Session, of: str) -> bool:
        """Whether the rights of the session rest on `of`; `of` empty: on nothing that there is."""
        return bool(of) and hmac.compare_digest(session.tie, self._tie(of))

    def renewed(self, session: Session, *, now_s: int) -> str:
        """Return the newer cookie of a session in use; empty if its cookie is new enough."""
        if now_s - session.seen_s < RENEWED_EACH_S:
            return ""
        return self._cookie(replace(session, seen_s=now_s))

    def rest_s(self, session: Session, *, now_s: int) -> int:
        """Return the seconds until the absolute end."""
        return max(0, session.begun_s + self.limits.lasts_s - now_s)

    def end(self, cookie: str, *, now_s: int) -> Session | None:
        """End a session early: all copies of its cookies are void, too. Invalid cookies are not remembered: a stranger
        can invent any number. Return the ended session; None: there was none."""
        if (session := self.read(cookie, now_s=now_s)) is not None:
            until_s = session.begun_s + self.limits.lasts_s
            ended = EndedSession(name=session.name, id=session.id, begun_s=session.begun_s, until_s=until_s)
            self._ended.add(ended, now_s=now_s)
        return session

    def form_word(self, cookie: str) -> str:
        """Return the secret word of the forms of a session, the same for all its cookies. Without a session (`cookie`
        empty): the word of this coordinator."""
        session = self._parse(cookie)
        return self.sign("form", cookie if session is None else session.id)

    def is_form_word(self, word: str, cookie: str) -> bool:
        return hmac.compare_digest(self.form_word(cookie).encode(), word.encode("utf-8", "replace"))

    def sign(self, use: str, text: str) -> str:
        """Return a keyed hash of `text`, 64 hexadecimal digits, another one for each `use`."""
        return hmac.new(self._key, f"{use}|{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def _tie(self, of: str) -> str:
        return self.sign("tie", of)[:32]

    def _cookie(self, session: Session) -> str:
        parts = (session.id, session.name, session.grant, session.tie, "s" if session.is_secure else "")
        text = "|".join([_VERSION, *parts, str(session.begun_s), str(session.seen_s)])
        return f"{text}|{self.sign('session', text)}"

    def _parse(self, cookie: str) -> Session | None:
        """Return the session that this coordinator signed, ended or not."""
        text, _, signature = cookie.rpartition("|")
        right = self.sign("session", text)
        if not hmac.compare_digest(right.encode(), signature.encode("utf-8", "replace")):
            return None
        version, *parts = text.split("|")
        if version != _VERSION or len(parts) != _PARTS:
            return None
        name = dict(zip(("id", "name", "grant", "tie"), parts, strict=False))
        return Session(**name, is_secure=bool(parts[4]), begun_s=int(parts[5]), seen_s=int(parts[6]))


@dataclass(slots=True)
class EndedSessions:
    """The sessions that ended early, until they would have ended by themselves. For several threads, and with a file
    for several coordinators."""

    _file: Path | None = None
    _ended: dict[str, dict[str, EndedSession]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: FileState = None

    def include(self, session: Session) -> bool:
        self._read()
        of_name = self._ended.get(session.name, {})
        everything = of_name.get(_ALL)
        return session.id in of_name or (everything is not None and session.begun_s <= everything.begun_s)

    def add(self, ended: EndedSession, *, now_s: int) -> None:
        with self._lock, _locked(self._file):
            self._merge(_read_ended(self._file))
            self._merge([ended])
            self._forget(now_s)
            self._write()

    def _read(self) -> None:
        """Take over what other coordinators wrote. Nothing that is known is forgotten because the file is gone."""
        if self._file is None or (state := state_of(self._file)) == self._seen:
            return
        with self._lock:
            self._seen = state
            self._merge(_read_ended(self._file))

    def _merge(self, ended_sessions: list[EndedSession]) -> None:
        """Readers see the old mapping or the new one."""
        merged = {name: dict(of_name) for name, of_name in self._ended.items()}
        for ended in ended_sessions:
            of_name = merged.setdefault(ended.name, {})
            earlier = of_name.get(ended.id)
            if earlier is None or earlier.begun_s < ended.begun_s:
                of_name[ended.id] = ended
            if len(of_name) > _ENDED_MAX:
                merged[ended.name] = {_ALL: _all_of(of_name)}
        self._ended = merged

    def _forget(self, now_s: int) -> None:
        kept = {
            name: {id_: ended for id_, ended in of_name.items() if ended.until_s > now_s}
            for name, of_name in self._ended.items()
        }
        self._ended = {name: of_name for name, of_name in kept.items() if of_name}

    def _write(self) -> None:
        if self._file is None:
            return
        lines = [
            f"{ended.name} {ended.id} {ended.begun_s} {ended.until_s}\n"
            for of_name in self._ended.values()
            for ended in of_name.values()
        ]
        try:
            fresh = self._file.with_name(f"{self._file.name}.{random_id(8)}")
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._file)
        except OSError as error:
            warned(
                "ended_session",
                why=f"{self._file} cannot be written: {error.strerror}; after a restart, and at "
                "other coordinators, a copied cookie may be valid",
            )


def _all_of(of_name: Mapping[str, EndedSession]) -> EndedSession:
    newest = max(of_name.values(), key=lambda ended: ended.begun_s)
    return replace(newest, id=_ALL, until_s=max(ended.until_s for ended in of_name.values()))


def _read_ended(file: Path | None) -> list[EndedSession]:
    """Lines in another form are left out."""
    try:
        if file is None:
            return []
        with file.open("rb") as opened:
            lines = opened.read(_ENDED_BYTES_MAX).decode("ascii", "replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        warned("ended_session", why=f"{file} cannot be read: {error.strerror}")
        return []
    return [ended for line in lines if (ended := _parse_ended(line)) is not None]


def _parse_ended(line: str) -> EndedSession | None:
    words = line.split(" ")
    if len(words) != _ENDED_PARTS or not all(word.isascii() and word.isdecimal() for word in words[2:]):
        return None
    return EndedSession(name=words[0], id=words[1], begun_s=int(words[2][:20]), until_s=int(words[3][:20]))


@contextmanager
def _locked(file: Path | None) -> Iterator[None]:
    """One coordinator of the machine at a time. A place that cannot be written needs no lock."""
    if file is None:
        yield
        return
    try:
        opened = os.open(file.with_name(f"{file.name}.lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def can_remember(file: Path) -> bool:
    """Whether ended sessions can be written beside the key file."""
    return os.access(file.parent, os.W_OK)
