"""What must be true of a course of events and of what is restored from it. Shares no code with what it judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.engine import State

FINAL = {"completed", "failed", "deleted"}
ALLOWED = {("completed", "deleted"), ("failed", "deleted")}


def state_faults(states: list[State]) -> Iterator[str]:
    """Of all partitions, once nothing is under way any more: the three properties of ZEP008, and that no effect is
    there without its cause."""
    first, *others = (each.versions for each in states)
    for number, versions in enumerate(others, 2):
        if versions - first:
            yield f"p{number} has deployments {sorted(versions - first)} that p1 never made"
        if first - versions:
            yield f"p{number} lacks deployments {sorted(first - versions)}"
    instances = {pair for each in states for pair in each.instances}
    messages = {pair for each in states for pair in each.messages}
    subscriptions = {pair for each in states for pair in each.subscriptions}
    if subscriptions != instances:
        yield f"subscriptions of nobody, or instances without one: {sorted(subscriptions ^ instances)[:5]}"
    done = Counter(pair for each in states for pair in each.correlated)
    due = {(instance, message) for instance, name in instances for message, of in messages if name == of}
    if twice := sorted(pair for pair, count in done.items() if count > 1):
        yield f"correlated twice: {twice[:5]}"
    if missing := sorted(due - done.keys()):
        yield f"never correlated: {missing[:5]}"
    if orphans := sorted(done.keys() - due):
        yield f"correlated with what is not there: {orphans[:5]}"


def status_faults(statuses: dict[int, list[str]]) -> Iterator[str]:
    """A verdict never turns, and none is open for ever."""
    for checkpoint, seen in sorted(statuses.items()):
        for before, after in pairwise(seen):
            if before in FINAL and (before, after) not in ALLOWED:
                yield f"checkpoint {checkpoint} was {before} and is {after}"
        if seen[-1] == "ongoing":
            yield f"checkpoint {checkpoint} is ongoing for ever"
