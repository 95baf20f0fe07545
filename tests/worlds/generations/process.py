"""A process that runs one instance without Spark:
`python -m tests.worlds.generations.process REPOSITORY BOOTSTRAP TOPIC INSTANCE LENGTH_MS [PLACE]`. Tests kill it. It
says what it is about to do, and is slow at it, so that kills fall anywhere."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outages
from offsite.generations.decision import AppendEntry, Effect, GenerationFacts
from offsite.generations.instance import RunningInstance, open_instance
from offsite.generations.request import GenerationsRequest
from offsite.generations.target import Workshop
from offsite.kafka import cluster
from offsite.model.clock import SystemClock
from offsite.model.errors import GenerationTakenOver
from offsite.model.selection import parse_selection
from offsite.repository.generation_sets.entry import Instance
from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from offsite.stores.posix_store import PosixStore
from tests.inline_runner import InlineRunner

SET = "pair"
SLOW_S = 0.012
_chance = random.Random()


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def slow(operation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operation)
    def slowly(*arguments: Any, **options: Any) -> Any:
        time.sleep(_chance.uniform(0, SLOW_S))
        result = operation(*arguments, **options)
        time.sleep(_chance.uniform(0, SLOW_S) / 2)
        return result

    return slowly


def tell_each_effect() -> None:
    right = RunningInstance._do

    def do(self: RunningInstance, effect: Effect, facts: GenerationFacts) -> GenerationFacts | None:
        tell(f"{type(effect).__name__}{f' {effect.kind}' if isinstance(effect, AppendEntry) else ''}")
        return right(self, effect, facts)

    RunningInstance._do = do  # type: ignore[method-assign]


def main(place: str, bootstrap: str, topic: str, instance: str, *rest: str) -> None:
    length_ms, archives = int(rest[0]), "".join(rest[1:2])
    for name in ("put_if_absent", "delete"):
        setattr(PosixStore, name, slow(getattr(PosixStore, name)))
    tell_each_effect()
    clock = SystemClock()
    request = GenerationsRequest(
        instance=Instance(instance),
        is_first=instance == "a",
        length_ms=length_ms,
        interval_s=0.05,
        backup=BackupRequest(backup=SET, selection=parse_selection([topic])),
        place=archives,
    )
    workshop = Workshop(
        repository=Repository.open(open_store(place)),
        cluster=cluster.connect(bootstrap, None),
        runner=InlineRunner(),
        outages=Outages(give_up_after_s=60, clock=clock, on_outage=lambda outage: tell(f"outage {outage}")),
        clock=clock,
        collect_after_s=24 * 3600,
        on_round=lambda _: None,
        on_effect=lambda _: None,
    )
    tell("ready")
    try:
        open_instance(request, workshop).run(outages=workshop.outages, clock=clock, interval_s=0.05)
    except GenerationTakenOver:
        tell("taken over")


if __name__ == "__main__":
    main(*sys.argv[1:])
