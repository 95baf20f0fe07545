"""A process that backs up, rolls up and collects without a pause, to be killed by its test."""

from __future__ import annotations

import random
import sys

from offsite.model.clock import SystemClock
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from offsite.upkeep.collection.run import collect, plan_collection
from tests.backups import PARTITIONS, run_once
from tests.inline_runner import InlineRunner
from tests.roll_ups import roll_up


def work(backup: Backup, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 3)):
        run_once(backup)
    state = backup.state()
    chosen = [tuple(found)[-chance.randint(2, 4) :] for each in PARTITIONS if len(found := state.segments[each]) > 3]
    if chosen:
        roll_up(backup, chosen, alone=chance.random() < 0.5)
        run_once(backup)
    plan = plan_collection(backup, clock=SystemClock(), grace_ms=0)
    collect(backup, plan, runner=InlineRunner())


def main(place: str, seed: int) -> None:
    catalog.COMMITS_PER_CATALOG = 1
    chance = random.Random(seed)
    backup = Repository.open(open_store(place)).backup("b")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        work(backup, chance)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
