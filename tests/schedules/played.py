"""What a schedule came to, and what both kinds of schedules share."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.net.routing import shared_pool
from offsite.model.errors import OffsiteError
from tests.fast_time import fast_time
from tests.misbehaving_broker.proxy import MisbehavingBrokers
from tests.misbehaving_broker.rules import Rule
from tests.schedules.draw import REQUEST_TIMEOUT_MS

FETCH_BYTES = 8_000
"""Two or three batches of the small topics."""
_TIMES_AS_FAST = 60
_KINDS = {
    "LOST": "lost",
    "is there": "doubled",
    "called a hole": "false hole",
    "crashed": "crashed",
    "stuck": "stuck",
    "WRONG": "wrong target",
    "alarm": "false alarm",
}


@dataclass(frozen=True, kw_only=True)
class Played:
    """`named`: what the faulty run said that it could not do. `unhealed`: what the clean run after it named still.
    `problems`: what must not be."""

    seed: int
    rules: Sequence[Rule]
    hits: int
    named: Sequence[str]
    unhealed: Sequence[str] = ()
    problems: Sequence[str]
    duration_s: float

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, {self.hits} faults in {self.duration_s:.1f} s"]
        lines += [f"  rule {rule}" for rule in self.rules]
        lines += [f"  named: {each}" for each in self.named]
        lines += [f"  named still: {each}" for each in self.unhealed]
        return "\n".join(lines + [f"  PROBLEM {each}" for each in self.problems])


def attempt(
    work: Callable[[], Sequence[object]], *, times_as_fast: float = _TIMES_AS_FAST
) -> tuple[list[str], list[str]]:
    """What it names as failed (also by an error of ours), and what it should not have done."""
    try:
        with fast_time(times_as_fast):
            return [str(each) for each in work()], []
    except OffsiteError as error:
        return [f"{error.id} {error.message}"], []
    except Exception:  # noqa: BLE001  (whatever else comes out is a finding)
        return [], [f"crashed: {traceback.format_exc(limit=-3)}"]


def proxied_config(brokers: MisbehavingBrokers) -> KafkaConfig:
    return KafkaConfig(bootstrap=parse_bootstrap(brokers.bootstrap), request_timeout_ms=REQUEST_TIMEOUT_MS)


def behave(brokers: MisbehavingBrokers) -> None:
    """As if nothing had been: no rule, and no connection of before."""
    brokers.behave()
    shared_pool.close()


def summary(played: Sequence[Played]) -> str:
    kinds = Counter(kind for each in played for kind in {_kind(problem) for problem in each.problems})
    bad = [each for each in played if each.problems]
    named = sum(bool(each.named) for each in played)
    unhealed = sum(bool(each.unhealed) for each in played)
    lines = [f"{len(bad)} of {len(played)} schedules ended wrong; {named} named something, {unhealed} for good"]
    lines += [f"  {count} times {kind}" for kind, count in kinds.most_common()]
    return "\n".join([*lines, *map(str, bad)])


def _kind(problem: str) -> str:
    return next((kind for word, kind in _KINDS.items() if word in problem), "other")
