"""A lease, and the identity of the process that holds it: who would do the same sees the holder.

A courtesy: of a restore, the fence protects the data. Terms are numbered. The holder of a term creates `claim`,
rewrites `beat` every few seconds while alive (a hint: a beat may be lost), and creates `end` when finished. The newest
claim counts until its end, until its process is known to be gone, or until the claim is silent for `TTL_S` by the
store's clock. Only positive knowledge counts: a process of another machine or container is never reported as gone.
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Self

from offsite.model.bounds import whole_number
from offsite.model.errors import DamagedObject, LeaseHeld, LeaseTakenOver, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.model.units import format_time
from offsite.model.untrusted.json_codec import Form
from offsite.model.untrusted.text import printable
from offsite.repository.json_form import FORMAT, StoredForm, encode_object
from offsite.repository.layout import own_objects
from offsite.stores.store import PutResult, Store

_STATE, _START_TIME = 0, 19  # fields of /proc/<pid>/stat after the name in parentheses
_DEAD = frozenset("ZXx")

TTL_S = 30.0
BEAT_S = 5.0
_TERM_MAX = 10**12 - 1
"""The last term that has a key (see `layout`)."""
_STRANGE = "no offsite process wrote the object: delete it, and check who has write access"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """The identity of one process. `boot` and `namespace` are empty if the system does not provide them; `started`
    counts clock ticks since the boot."""

    host: str
    boot: str
    namespace: str
    pid: str
    started: str
    user: str

    @classmethod
    def current(cls) -> Self:
        return cls.of_process(os.getpid())

    @classmethod
    def of_process(cls, pid: int) -> Self:
        """The process `pid`, on this machine, in this container, of this user."""
        return cls(
            host=socket.gethostname(),
            boot=_read("/proc/sys/kernel/random/boot_id"),
            namespace=_link("/proc/self/ns/pid"),
            pid=str(pid),
            started=(_stat(pid) or ("",) * (_START_TIME + 1))[_START_TIME],
            user=_user(),
        )

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Self:
        """The identity stored in `fields`."""
        return cls(**{name: fields.get(name, "") for name in cls.__dataclass_fields__})

    @property
    def fields(self) -> Mapping[str, str]:
        return asdict(self)

    @property
    def text(self) -> str:
        """The process in words for people."""
        return f"process {self.pid} of {self.user} on {self.host}"

    def is_gone(self, *, seen_from: ProcessIdentity) -> bool:
        """Whether the process is certainly dead; `seen_from`: the process that asks. What cannot be read of a process
        (of another user, or with too many open files) proves nothing."""
        here = (seen_from.host, seen_from.boot, seen_from.namespace)
        pid = whole_number(self.pid)
        if not self.boot or pid is None or (self.host, self.boot, self.namespace) != here:
            return False
        if not _exists(pid):
            return True
        stat = _stat(pid)
        return stat is not None and (stat[_STATE] in _DEAD or self.started not in {"", stat[_START_TIME]})

    def is_running(self, *, seen_from: ProcessIdentity) -> bool:
        """Whether the process is certainly alive, and no other process has its number; `seen_from`: the process that
        asks."""
        stat = None if self.is_gone(seen_from=seen_from) else _stat(whole_number(self.pid) or 0)
        return stat is not None and stat[_START_TIME] == self.started


def _exists(pid: int) -> bool:
    """Whether a process has the number, also one that this user may not look at."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _stat(pid: int) -> tuple[str, ...] | None:
    """The system's status fields of a process, None if they cannot be read."""
    return tuple(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()) or None


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _user() -> str:
    try:
        return printable(getpass.getuser())  # of the environment: any bytes
    except (KeyError, OSError):
        return str(os.getuid())


BEATS = (encode_object({"format": FORMAT}), b"{}\n")
"""The content of a sign of life: as written now, and as written by earlier versions. Readers use only its time."""


_HOLDER = Form(
    lambda document, name: ProcessIdentity.of(dict(document.text_map(name))), lambda holder: dict(holder.fields)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClaim:
    """A claim to one term. `word` is random: it distinguishes our own claim after a lost answer from another process's
    claim."""

    term: int
    holder: Annotated[ProcessIdentity, _HOLDER]
    word: str
    since_ms: int


_CLAIM = StoredForm(LeaseClaim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One lease: the terms below `prefix`. `resource`: what its holder works on, `hint`: the next step of who is
    refused, both for people. `error`: raised while another process holds the lease; `taken_over`: raised once another
    process holds a later term."""

    store: Store
    prefix: str
    resource: str
    hint: str
    error: type[LeaseHeld] = LeaseHeld
    taken_over: type[LeaseTakenOver] = LeaseTakenOver

    def key(self, term: int, part: str) -> str:
        """The key of one part of a term. `term` counts from 1; `part`: `claim`, `beat` or `end`."""
        return f"{self.prefix}{term:08d}.{part}.json"

    def claim(self, holder: ProcessIdentity, word: str, *, take_over: bool) -> LeaseClaim:
        """Claim the next term. Raises `LeaseHeld` while another process holds the lease, unless `take_over`."""
        while True:
            newest = self._newest()
            if newest is not None and not self._is_free(newest, holder):
                if not take_over:
                    raise self.held_by(newest)
                warned("take-over", why="asked for", lease=self.resource, holder=newest.holder.text)
            term = 1 if newest is None else newest.term + 1
            if term > _TERM_MAX:
                raise DamagedObject(f"no term can follow {self.key(_TERM_MAX, 'claim')}", hint=_STRANGE)
            claim = LeaseClaim(term=term, holder=holder, word=word, since_ms=self.store.now_ms())
            data = _CLAIM.encode(claim)
            if self.store.put_if_absent(self.key(term, "claim"), data) is not PutResult.OTHER:
                return claim

    @contextmanager
    def held(self, holder: ProcessIdentity) -> Iterator[LeaseClaim]:
        """A block that holds the next term and ends the term afterwards. Raises `LeaseHeld` while another process holds
        the lease."""
        claim = self.claim(holder, random_id(), take_over=False)
        try:
            yield claim
        finally:
            with suppress(OffsiteError):  # without an end the lease expires
                self.end(claim)

    @contextmanager
    def renewed(self, holder: ProcessIdentity) -> Iterator[LeaseRenewal]:
        """As `held`, for long work: the term is renewed all the time."""
        renewal = LeaseRenewal(self, self.claim(holder, random_id(), take_over=False))
        try:
            yield renewal
        finally:
            renewal.give_up()

    def beat(self, claim: LeaseClaim) -> None:
        """Write a sign of life. Raises `LeaseTakenOver`."""
        self.check(claim)
        self.store.put_overwrite(self.key(claim.term, "beat"), BEATS[0])

    def check(self, claim: LeaseClaim) -> None:
        """Check that the claim still counts. Raises `LeaseTakenOver` if a later term has begun, or if the claim is
        gone: who deletes old terms holds a later one."""
        if (later := self._claim_of(claim.term + 1)) is not None:
            holder, since = later.holder.text, f" at {format_time(later.since_ms)}"
        elif self.store.head(self.key(claim.term, "claim")) is None:
            holder, since = "another process", ""
        else:
            return
        warned("fence", why="it was taken over", lease=self.resource, holder=holder)
        raise self.taken_over(
            f"{self.resource} was taken over by {holder}{since}: this process has stopped",
            hint="the other process is not affected: wait for its end",
        )

    def last_sign_ms(self, claim: LeaseClaim) -> int:
        """When the holder wrote its last sign of life, by the store's clock."""
        infos = (self.store.head(self.key(claim.term, part)) for part in ("claim", "beat"))
        return max((info.modified_ms for info in infos if info is not None), default=claim.since_ms)

    def claimed_ms(self, term: int) -> int:
        """When a term was claimed, by the store's clock; 0 if it was not."""
        info = self.store.head(self.key(term, "claim"))
        return 0 if info is None else info.modified_ms

    def end(self, claim: LeaseClaim) -> None:
        """End the term, after success or failure: the next process need not wait."""
        self.store.put_if_absent(self.key(claim.term, "end"), encode_object({"format": FORMAT}))

    def holder(self, *, asking: ProcessIdentity, now_ms: int | None = None) -> LeaseClaim | None:
        """The current holder, or None. `now_ms`: the store's time, for a reader that must not write; reading the
        store's clock is a write."""
        newest = self._newest()
        return None if newest is None or self._is_free(newest, asking, now_ms) else newest

    def readable_holder(self, *, asking: ProcessIdentity) -> LeaseClaim | None:
        """As `holder`, for claims that a stranger may have written: an unreadable claim without any write beside it for
        `TTL_S` counts as no holder. Raises `DamagedObject` for a younger unreadable claim, because its writer may be at
        work."""
        try:
            return self.holder(asking=asking)
        except DamagedObject as error:
            written_ms = max((info.modified_ms for info in own_objects(self.store.list(self.prefix))), default=0)
            if self.store.now_ms() - written_ms <= TTL_S * 1000:
                raise
            warned("claim_unreadable", lease=self.resource, why=error.message)
            return None

    def newest(self) -> LeaseClaim | None:
        """The newest claim, valid or not."""
        return self._newest()

    def newest_term(self) -> int:
        """The number of the newest term; 0 if the lease was never claimed."""
        newest = self._newest()
        return 0 if newest is None else newest.term

    def held_by(self, claim: LeaseClaim, *, hint: str = "") -> LeaseHeld:
        """The error for a process that would start the same work. `hint`: another than the lease's."""
        return self.error(
            f"{claim.holder.text} has been busy with {self.resource} since {format_time(claim.since_ms)}; its "
            f"last heartbeat was {self._silent_s(claim):.0f} s ago",
            hint=hint or self.hint,
        )

    def _newest(self) -> LeaseClaim | None:
        keys = [info.key for info in own_objects(self.store.list(self.prefix)) if info.key.endswith(".claim.json")]
        newest = max(map(self._term, keys), default=0)
        return self._claim_of(newest) if newest else None

    def _term(self, key: str) -> int:
        return int(key.removeprefix(self.prefix).partition(".")[0])

    def _claim_of(self, term: int) -> LeaseClaim | None:
        key = self.key(term, "claim")
        if (data := self.store.get(key)) is None:
            return None
        claim = _CLAIM.decode(data, key=key)
        if claim.term != term:
            raise DamagedObject(f"{key} claims term {claim.term}", hint=_STRANGE)
        return claim

    def _is_free(self, claim: LeaseClaim, asking: ProcessIdentity, now_ms: int | None = None) -> bool:
        if self.store.head(self.key(claim.term, "end")) is not None:
            return True
        if claim.holder.is_gone(seen_from=asking):
            self._tell_void(claim, "its process has ended")
            return True
        if self._silent_s(claim, now_ms) > TTL_S:
            self._tell_void(claim, "it is silent")
            return True
        return False

    def _silent_s(self, claim: LeaseClaim, now_ms: int | None = None) -> float:
        signs = (self.store.head(self.key(claim.term, part)) for part in ("claim", "beat"))
        newest_ms = max((info.modified_ms for info in signs if info is not None), default=0)
        return ((self.store.now_ms() if now_ms is None else now_ms) - newest_ms) / 1000

    def _tell_void(self, claim: LeaseClaim, why: str) -> None:
        decided("take-over", why=why, lease=self.resource, holder=claim.holder.text)


class LeaseRenewal:
    """A claim of this process, renewed by a thread until it is given up. `lost`: the error of another process's later
    term; None as far as known."""

    def __init__(self, lease: Lease, claim: LeaseClaim) -> None:
        self.lease, self.claim = lease, claim
        self.lost: LeaseTakenOver | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="offsite-lease", daemon=True)
        self._thread.start()

    @property
    def is_lost(self) -> bool:
        return self.lost is not None

    def check(self) -> None:
        """Check that the claim still counts. Raises `LeaseTakenOver`."""
        self.lease.check(self.claim)

    def stop(self) -> None:
        """Write nothing more, not even the end of the claim."""
        self._ended.set()
        self._thread.join()

    def give_up(self) -> None:
        """Let the next process begin at once. Raises no `OffsiteError`."""
        if self._ended.is_set():
            return
        self.stop()
        with suppress(OffsiteError):  # without an end the lease expires
            self.lease.end(self.claim)

    def _renew(self) -> None:
        problem = ""
        while not self._ended.wait(BEAT_S):
            try:
                self.lease.beat(self.claim)
                problem = ""
            except LeaseTakenOver as error:
                self.lost = error
                return
            except OffsiteError as error:  # the next beat may succeed; else another process may take over
                if problem != error.id:  # told once
                    warned("beat", error=error.id, why=error.message, lease=self.lease.resource)
                problem = error.id
