"""A ledger over a codec and a fold: who is first decides; what a writer is refused is damage to a reader."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from offsite.model.errors import BadName, DamagedObject
from offsite.stores.numbered_log import HINT, EntryRefusedError, Ledger, LedgerForm, hash_of
from tests.memory_store import MemoryStore

MANY = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    seq: int = 0
    head: str = ""
    total: int = 0


def apply(state: Sum, entry: int, head: str) -> Sum:
    if entry < 0:
        raise EntryRefusedError(f"{entry} is less than nothing")
    return Sum(seq=state.seq + 1, head=head, total=state.total + entry)


def decode(data: bytes, key: str) -> int:
    if data == b"name":
        raise BadName(f"{key} has a bad name")
    return int(data)


FORM = LedgerForm(encode=lambda entry: str(entry).encode(), decode=decode, apply=apply)


@pytest.fixture
def ledger() -> Ledger[int, Sum]:
    return Ledger(store=MemoryStore(), prefix="sums/", form=FORM, first=Sum())  # type: ignore[arg-type]


def filled(ledger: Ledger[int, Sum], *entries: int) -> Sum:
    state = ledger.read()
    for entry in entries:
        appended = ledger.append(entry, to=state)
        assert appended is not None
        state = appended
    return state


def test_what_is_appended_is_what_is_read(ledger: Ledger[int, Sum]) -> None:
    state = filled(ledger, 1, 2, 3)
    assert ledger.read() == state == Sum(seq=3, head=hash_of(b"3"), total=6)
    assert ledger.read(replace(state, total=0)).total == 0, "known entries are not read again"
    assert ledger.store.get("sums/00000000000000000002.json") == b"2"


def test_of_two_writers_after_one_state_one_decides(ledger: Ledger[int, Sum]) -> None:
    state = filled(ledger, 1)
    assert ledger.append(2, to=state) is not None
    assert ledger.append(3, to=state) is None
    assert ledger.append(2, to=state) is not None, "equal bytes are the own entry after a lost answer"
    assert ledger.read().total == 3


def test_a_refused_entry_is_not_stored(ledger: Ledger[int, Sum]) -> None:
    state = filled(ledger, 1)
    with pytest.raises(EntryRefusedError):
        ledger.append(-1, to=state)
    assert ledger.store.get(ledger.key(2)) is None


@pytest.mark.parametrize(("data", "why"), [(b"-1", "-1 is less than nothing"), (b"name", "bad name")])
@pytest.mark.parametrize("hint", [HINT, "delete all of them"])
def test_a_stored_entry_that_is_refused_is_damage_with_its_key_and_the_hint_of_the_ledger(
    ledger: Ledger[int, Sum], data: bytes, why: str, hint: str
) -> None:
    filled(ledger, 1)
    ledger.store.put_if_absent(ledger.key(2), data)
    with pytest.raises(DamagedObject, match=f"{ledger.key(2)}: .*{why}") as damage:
        replace(ledger, hint=hint).read()
    assert damage.value.hint == hint


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("gone", [1, 7, MANY - 1])
def test_a_missing_entry_is_damage_however_many_there_are(ledger: Ledger[int, Sum], is_long: bool, gone: int) -> None:
    filled(ledger, *range(MANY))
    ledger = replace(ledger, is_long=is_long)
    assert ledger.read().seq == MANY
    ledger.store.delete(ledger.key(gone))
    with pytest.raises(DamagedObject, match=f"{ledger.key(gone)} is missing"):
        ledger.read()


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("name", ["-0000000000000000001.json", "00000000000000000009.json.bak", "9.json", "x"])
def test_files_of_others_are_no_entries(ledger: Ledger[int, Sum], is_long: bool, name: str) -> None:
    filled(ledger, *range(MANY))
    ledger.store.put_if_absent(f"sums/{name}", b"?")
    assert replace(ledger, is_long=is_long).read().seq == MANY
