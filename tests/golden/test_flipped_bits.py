"""No bit of a repository can change unseen: `verify --deep` finds it, whichever object it is in."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.model.errors import Bug, OffsiteError
from offsite.repository.repository import Repository
from offsite.upkeep.verification.run import verify_deep
from tests.golden.flipped_store import FlippedStore
from tests.inline_runner import InlineRunner
from tests.integration.e2e.command import offsite

GOLDEN = Path(__file__).parent / "format-1-digests"
OLDER = Path(__file__).parent / "format-1"
NEWEST = Path(__file__).parent / "format-3"
"""With pins, and what retention and compaction took out."""
EACH_TIME = 96
"""Of the bytes of an object one in so many is changed in each run; the soak changes each bit of each of them."""


def found(store: FlippedStore) -> str:
    """What is told of the backup; empty when it is said to be whole."""
    try:
        result = verify_deep(Repository.open(store).backup("nightly"), InlineRunner())
    except Bug:
        raise
    except OffsiteError as error:
        return error.message
    return "" if result.ok else str(result)


def flips(data: bytes, *, every: int) -> Iterator[tuple[int, bytes]]:
    """One bit of one byte in `every`, each time another bit; with 1 each bit of each byte."""
    bits = range(8) if every == 1 else None
    for position in range(0, len(data), every):
        for bit in bits or (position // every % 8,):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            yield position * 8 + bit, bytes(flipped)


def unseen(store: FlippedStore, key: str, *, every: int) -> list[int]:
    """Bits that nobody finds."""
    missed = []
    for bit, data in flips(store.objects[key], every=every):
        store.replace(key, data)
        if not found(store):
            missed.append(bit)
    store.replace("", b"")
    return missed


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_the_golden_repositories_are_whole() -> None:
    assert found(FlippedStore(GOLDEN)) == ""
    assert found(FlippedStore(OLDER)) == ""
    assert found(FlippedStore(NEWEST)) == ""


@pytest.mark.parametrize("key", FlippedStore(GOLDEN).objects)
def test_no_flipped_bit_goes_unseen(key: str) -> None:
    assert unseen(FlippedStore(GOLDEN), key, every=EACH_TIME) == []


@pytest.mark.parametrize(
    "key", [key for key in FlippedStore(NEWEST).objects if "/commits/" in key or "/catalog/" in key]
)
def test_no_flipped_bit_of_what_retention_left_goes_unseen(key: str) -> None:
    assert unseen(FlippedStore(NEWEST), key, every=EACH_TIME) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)  # the largest object has 83,000 bits
@pytest.mark.parametrize("key", FlippedStore(GOLDEN).objects)
def test_no_flipped_bit_of_all_goes_unseen(key: str) -> None:
    assert unseen(FlippedStore(GOLDEN), key, every=1) == []


@pytest.mark.parametrize("key", FlippedStore(OLDER).objects)
def test_of_earlier_versions_it_is_told_what_nothing_vouches_for(key: str) -> None:
    store = FlippedStore(OLDER)
    missed = unseen(store, key, every=EACH_TIME)
    assert not missed or key in verify_deep(Repository.open(store).backup("nightly"), InlineRunner()).unvouched


@pytest.mark.parametrize(
    "name",
    [
        "commits/00000000000000000003.json",
        pytest.param("backup.json", marks=pytest.mark.soak),
        pytest.param("catalog/hint.json", marks=pytest.mark.soak),
    ],
)
def test_the_command_finds_it_too(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "repository"
    shutil.copytree(GOLDEN, folder)
    path = folder / "backups" / "nightly" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert offsite("verify", "--repo", folder, "--backup", "nightly", "--deep").exit_code == 13
