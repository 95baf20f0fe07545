"""What is told of a store, and what is left in it: nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offsite.doctor import stored
from offsite.doctor.check import CheckVerdict
from offsite.doctor.parts import DoctorRequest, Parts
from offsite.model.errors import OverwritingStore, StoreDenied
from offsite.repository.layout import DOCTOR_PREFIX
from offsite.stores.posix_store import PosixStore
from offsite.stores.store import PutResult
from tests.fake_cluster.site import Site
from tests.unit.doctor.conftest import Examine, found


class OddStore:
    """The store behind it, but for what a test replaces."""

    def __init__(self, inner: PosixStore, **replaced: object) -> None:
        self._inner = inner
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def odd(parts: Parts, **replaced: object) -> Parts:
    parts.__dict__["store"] = OddStore(parts.store, **replaced)  # type: ignore[arg-type]
    return parts


@pytest.fixture(autouse=True)
def nothing_is_left(site: Site) -> Iterator[None]:
    yield
    assert [each.key for each in site.repository.store.list("probes/")] == ["probes/create-only"]


CHECKED: tuple[Callable[[Parts], object], ...] = (stored.rights, stored.create_only, stored.large)


def test_a_store_that_overwrites_is_told(parts: Parts) -> None:
    store = parts.store

    def put(key: str, data: bytes) -> PutResult:
        store.delete(key)
        return store.put_if_absent(key, data)

    with pytest.raises(OverwritingStore):
        stored.create_only(odd(parts, put_if_absent=put))


def test_a_store_where_two_win_at_a_time_and_not_later_is_told(parts: Parts) -> None:
    store, calls = parts.store, []

    def put(key: str, data: bytes) -> PutResult:
        calls.append(key)
        if len(calls) <= stored.RACERS:
            store.put_overwrite(key, data)
            return PutResult.CREATED
        return store.put_if_absent(key, data)

    with pytest.raises(OverwritingStore, match=f"{stored.RACERS} succeeded"):
        stored.create_only(odd(parts, put_if_absent=put))


def test_a_store_where_one_wins_at_a_time_and_another_one_later_is_told(parts: Parts) -> None:
    store, calls = parts.store, []

    def put(key: str, data: bytes) -> PutResult:
        calls.append(key)
        return store.put_if_absent(key, data) if len(calls) <= stored.RACERS else PutResult.CREATED

    with pytest.raises(OverwritingStore):
        stored.create_only(odd(parts, put_if_absent=put))


@pytest.mark.parametrize(
    ("replaced", "said"),
    [
        ({"get": lambda _: b"other"}, "read back"),
        ({"head": lambda key: None if "doctor" in key else object()}, "size"),
        ({"list": lambda _: iter(())}, "not listed"),
    ],
)
def test_a_store_that_does_not_show_what_was_put_is_told(parts: Parts, replaced: dict[str, object], said: str) -> None:
    told = found(stored.rights, odd(parts, **replaced))
    assert (told.verdict, said in told.said) == (CheckVerdict.FAILED, True)


def test_a_store_that_lets_nothing_be_deleted_is_a_warning(parts: Parts, site: Site) -> None:
    def denied(_: str) -> None:
        raise StoreDenied("cannot delete")

    told = found(stored.rights, odd(parts, delete=denied))
    assert (told.verdict, "retention" in told.cure) == (CheckVerdict.WARNING, True)
    for each in list(site.repository.store.list("probes/")):
        if each.key.startswith(DOCTOR_PREFIX):
            site.repository.store.delete(each.key)


def test_a_large_object_that_comes_back_otherwise_is_told(parts: Parts) -> None:
    told = found(stored.large, odd(parts, get=lambda _: b"x"))
    assert told.verdict is CheckVerdict.FAILED


def test_what_a_killed_doctor_left_is_removed_by_a_later_one(site: Site, parts: Parts) -> None:
    root = Path(site.repository.store.url)
    for name, age_s in (("old", 7200), ("young", 60)):
        site.repository.store.put_if_absent(f"{DOCTOR_PREFIX}{name}", b"x")
        file = root / f"{DOCTOR_PREFIX}{name}"
        os.utime(file, (file.stat().st_mtime - age_s,) * 2)
    assert found(stored.rights, parts).verdict is CheckVerdict.OK
    left = {each.key for each in site.repository.store.list("probes/")}
    assert left == {"probes/create-only", f"{DOCTOR_PREFIX}young"}
    site.repository.store.delete(f"{DOCTOR_PREFIX}young")


def test_a_folder_that_is_no_repository_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "empty"
    place.mkdir()
    parts = Parts(DoctorRequest(repo=str(place)))
    for check in CHECKED:
        told = found(check, parts)  # type: ignore[arg-type]
        assert (told.verdict, "offsite init" in told.cure) == (CheckVerdict.SKIPPED, True)
    assert list(place.iterdir()) == []


def test_who_may_not_write_writes_nothing(site: Site, examined: Examine) -> None:
    root = Path(site.repository.store.url)
    before = {each: each.stat().st_mtime_ns for each in root.rglob("*")}
    told = examined(write=False)
    assert {told[name].verdict for name in ("store.rights", "store.create_only", "store.large", "clocks.store")} == {
        CheckVerdict.SKIPPED
    }
    assert told["store.repository"].verdict is CheckVerdict.OK
    assert {each: each.stat().st_mtime_ns for each in root.rglob("*")} == before
