"""When the proxy misbehaves: rules, each with a fault, and a book of what they did. All randomness comes from one
seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from offsite.kafka.protocol.request import Api
from tests.misbehaving_broker.exchange import Exchange
from tests.misbehaving_broker.messages import Request

Fault = Callable[[Exchange], None]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Requests of `api` (None: any) about `topic` and `partition` (None: any) are counted; the first `skip` of them
    pass, of those after them each one is hit with `probability`, until `times` (None: for ever) were."""

    fault: Fault
    api: Api | None
    topic: str | None = None
    partition: int | None = None
    skip: int = 0
    times: int | None = 1
    probability: float = 1.0

    def matches(self, request: Request) -> bool:
        if self.api is not None and request.api != self.api:
            return False
        if self.topic is None and self.partition is None:
            return True
        return any(
            self.topic in (None, each.topic) and self.partition in (None, each.partition) for each in request.partitions
        )


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A fault that happened: to which request."""

    rule: Rule
    request: Request


class Rulebook:
    """Thread-safe. The first rule that wants a request has it."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(seed)
        self._rules: list[Rule] = []
        self._seen: list[int] = []
        self._hit: list[int] = []
        self.hits: list[Hit] = []

    def replace(self, rules: Iterable[Rule], *, seed: int | None = None) -> None:
        """Begin anew with these rules, and with nothing counted."""
        with self._lock:
            self._rules = list(rules)
            self._seen, self._hit, self.hits = [0] * len(self._rules), [0] * len(self._rules), []
            if seed is not None:
                self._random = random.Random(seed)

    def choose(self, request: Request) -> Fault | None:
        with self._lock:
            for number, rule in enumerate(self._rules):
                if rule.matches(request) and self._wants(number, rule):
                    self._hit[number] += 1
                    self.hits.append(Hit(rule=rule, request=request))
                    return rule.fault
            return None

    def draw(self) -> random.Random:
        """A generator for one exchange."""
        with self._lock:
            return random.Random(self._random.random())

    def _wants(self, number: int, rule: Rule) -> bool:
        self._seen[number] += 1
        if self._seen[number] <= rule.skip or (rule.times is not None and self._hit[number] >= rule.times):
            return False
        return rule.probability >= 1 or self._random.random() < rule.probability
