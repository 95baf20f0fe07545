"""Copies of local checkpoints in the store: their files, and their states.

    <name>/copies/<checkpoint>/<partition>/<term>/state/0000.json     each state is a new object with the next number,
                                                  state/0001.json     so that of two writers one is told to look again
                                                  base.json           the snapshot; none if there was none
                                                  log.jsonl           the log from there to the checkpoint and beyond
                                                  manifest.json       sizes and digests of both

There is no overwriting, and so no copy that changes under its reader. Removed are files alone, of copies whose state
says that no restore takes them, and never a state: it is the mark that an id is spent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from examples.stream_processor.place import Begun, Place, begun_of
from offsite.stores.store import PutResult, Store
from offsite_participant.bcs_copies import Copy, CopyState, disposable

MANIFEST, BASE, LOG_FILE = "manifest.json", "base.json", "log.jsonl"
FILES = (MANIFEST, BASE, LOG_FILE)
_OF_A_PARENT = {CopyState.COMPLETED, CopyState.DELETED}
"""States of the checkpoint that a processor was restored from which count for it: whether it needs no copy of its own,
and whether it may not make one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A `copy` as the store has it, in the state of this `number`."""

    copy: Copy
    number: int = 0


class CopyStore:
    """All copies of one stream processor. One that was restored sees the checkpoint it comes from as well, and writes
    nothing there."""

    def __init__(self, place: Place, *, begun: Begun | None = None) -> None:
        self._store: Store = place.store()
        self._prefix, self._begun = f"{place.prefix}copies/", begun or begun_of(place)
        self._parent = f"{self._begun.parent}/copies/" if self._begun.parent else ""

    @property
    def begun(self) -> Begun:
        return self._begun

    def copies(self, checkpoint: int | None = None) -> list[Stored]:
        """Of one checkpoint, or of all."""
        own = self._states(f"{self._prefix}{checkpoint:010d}/" if checkpoint else self._prefix)
        found = [self._read(key) for key in own]
        if self._parent and checkpoint in {None, self._begun.checkpoint}:
            parents = map(self._read, self._states(f"{self._parent}{self._begun.checkpoint:010d}/"))
            found += [each for each in parents if each.copy.state in _OF_A_PARENT]
        return found

    def begin(self, copy: Copy) -> Stored | None:
        """Write the first state of a copy; None if it has one."""
        return self._put(Stored(copy=copy))

    def change(self, stored: Stored, state: CopyState, reason: str = "") -> Stored | None:
        """Compare and set: None if the copy is not in the state any more in which it was `stored`."""
        return self._put(Stored(copy=replace(stored.copy, state=state, reason=reason), number=stored.number + 1))

    def remove_files(self, stored: Stored) -> tuple[str, ...]:
        """Remove the files of a copy that no restore takes; the keys that were removed. Nothing is removed on the word
        of whoever asks: the state is read once more, and has to be that of this very place. The manifest goes first:
        without it, what is left is no copy for anybody. What is not ours to name stays. Raises `ValueError` for a copy
        that a restore may take, and for one of a parent."""
        folder = self._folder(stored.copy)
        if not folder.startswith(self._prefix):
            raise ValueError(f"{stored.copy} belongs to the processor that this one was restored from")
        (newest,) = map(self._read, self._states(folder))
        if not list(disposable([newest.copy])):
            raise ValueError(f"{newest.copy} is not to be removed")
        left = {each.key for each in self._store.list(folder)}
        removed = tuple(folder + name for name in FILES if folder + name in left)
        for key in removed:
            self._store.delete(key)
        return removed

    def write(self, copy: Copy, files: Mapping[str, bytes]) -> None:
        """Raises `ValueError` if one of them is there with other bytes."""
        manifest = json.dumps({name: sha256(data).hexdigest() for name, data in files.items()}).encode()
        for name, data in {**files, MANIFEST: manifest}.items():
            if self._store.put_if_absent(self._folder(copy) + name, data) is PutResult.OTHER:
                raise ValueError(f"{name} of {copy} is there with other bytes")

    def read(self, copy: Copy) -> dict[str, bytes]:
        """The files of a copy. Raises `ValueError` for one that is missing or has not the bytes that were written."""
        manifest = json.loads(self._object(copy, MANIFEST))
        files = {name: self._object(copy, name) for name in manifest}
        for name, data in files.items():
            if sha256(data).hexdigest() != manifest[name]:
                raise ValueError(f"{name} of {copy} is damaged")
        return files

    def _object(self, copy: Copy, name: str) -> bytes:
        data = self._store.get(self._folder(copy) + name)
        if data is None:
            raise ValueError(f"{name} of {copy} is missing")
        return data

    def _put(self, stored: Stored) -> Stored | None:
        result = self._store.put_if_absent(self._state_key(stored), json.dumps(asdict(stored.copy)).encode())
        return None if result is PutResult.OTHER else stored

    def _folder(self, copy: Copy) -> str:
        prefix = self._parent if copy.checkpoint == self._begun.checkpoint else self._prefix
        return f"{prefix}{copy.checkpoint:010d}/{copy.partition:03d}/{copy.term:012d}/"

    def _states(self, prefix: str) -> Iterator[str]:
        """The key of the newest state of each copy."""
        newest: dict[str, str] = {}
        for each in self._store.list(prefix):
            folder, is_state, _ = each.key.partition("/state/")
            if is_state:
                newest[folder] = each.key  # keys come in ascending order
        yield from newest.values()

    def _read(self, key: str) -> Stored:
        """Raises `ValueError` for a state that does not belong where it lies: what it says is not believed."""
        try:
            fields = json.loads(self._store.get(key) or b"")
            stored = Stored(copy=Copy(**{**fields, "state": CopyState(fields["state"])}), number=int(key[-9:-5]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{key} is not the state of a copy: {error}") from error
        if self._state_key(stored) != key:
            raise ValueError(f"{key} is the state of another copy: {stored.copy}")
        return stored

    def _state_key(self, stored: Stored) -> str:
        return f"{self._folder(stored.copy)}state/{stored.number:04d}.json"
