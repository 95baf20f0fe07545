"""Random courses of files that come, go, are cut and mended, under two operators: what was so for long counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from offsite.operator.folder.declarations import Admissions
from offsite.operator.world.backups import BackupExecutor
from offsite.operator.world.observe import RepositoryAliases
from tests.worlds.operator import file_world
from tests.worlds.operator.file_world import FileWorld

SEEDS = int(os.environ.get("OFFSITE_OPERATOR_SEEDS", "10000"))
STEPS = 40


def play(seed: int) -> None:
    world = FileWorld(seed)
    try:
        for _ in range(STEPS):
            if world.rng.random() < 0.4:
                world.happen()
            world.look(world.rng.randrange(2))
            world.pass_time()
        world.calm()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("first", range(0, 12, 6))
def test_only_what_was_so_for_a_while_counts(first: int) -> None:
    for seed in range(first, first + 6):
        play(seed)


@pytest.mark.soak
@pytest.mark.usefixtures("unheard")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(2))
def test_only_what_was_so_for_a_while_counts_in_many_courses(first: int) -> None:
    play_many(range(first, SEEDS, 2))


def by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    def look_at(self: Admissions, steady: Any, key: Any, what: Any) -> Any:
        now_ms = self._clock.now_ms()
        return steady.look(key, what, now_s=now_ms / 1000, now_ms=now_ms)

    patch.setattr(Admissions, "_look_at", look_at)
    patch.setattr("offsite.operator.folder.declarations.LOOKS_MIN", 0.001)


def at_the_first_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileWorld, "begin", hurried(FileWorld.begin, "_away"))


def unsettled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileWorld, "begin", hurried(FileWorld.begin, "_settling"))


def hurried(begin: Callable[..., Admissions], what: str) -> Callable[..., Admissions]:
    def begun(self: FileWorld, clock: Any) -> Admissions:
        found = begin(self, clock)
        getattr(found, what)._enough_s = 0.0
        return found

    return begun


def by_the_order_of_accounts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_world, "find_current_account", lambda *_: "")


def stopped_before_it_is_tried(patch: pytest.MonkeyPatch) -> None:
    tried = BackupExecutor._try_start

    def late(self: BackupExecutor, wanted: Any, start: Any, *, claims: bool) -> Any:
        return tried(self, wanted, start, claims=True) if claims and wanted.timestamp_format else start.beginning

    patch.setattr(BackupExecutor, "_try_start", late)


def another_spelling_is_another_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RepositoryAliases, "distinct", lambda _, __, ___, places: tuple(dict.fromkeys(places)))


@pytest.mark.parametrize(
    "mistake",
    [
        by_the_wall_clock,
        at_the_first_look,
        unsettled,
        by_the_order_of_accounts,
        stopped_before_it_is_tried,
        another_spelling_is_another_place,
    ],
)
def test_a_seeded_mistake_is_caught(mistake: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mistake(patch)
        with pytest.raises(AssertionError, match="seed"):
            play_many(range(60))


def play_many(seeds: Iterable[int]) -> None:
    for seed in seeds:
        play(seed)
