"""A recorded history: all that the cut of one commit was made from, and what the logs held when everything was over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offsite.cut.readings import CutEvidence, EndsReading, LoggedCommit
from offsite.cut.window import Ends, GroupCommit
from offsite.log.markers import Marker
from offsite.log.range import PartitionId
from offsite.log.transaction_state import ListedTransaction, TransactionChange, TransactionStatus
from offsite.log.transactions import OpenTransaction, PartitionTail

RECORDED = Path(__file__).parents[2] / "tests" / "golden" / "cut" / "history.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """`later`: of each partition and producer the first marker behind the end that was read. `faults`: what the
    application had lost or done twice after a restore of the ends as they were copied, in words."""

    evidence: CutEvidence
    later: Mapping[PartitionId, Mapping[int, int]]
    faults: tuple[str, ...]


def load_history(path: Path = RECORDED) -> History:
    return decode_history(json.loads(path.read_text(encoding="utf-8")))


def encode_history(history: History, names: Mapping[str, str]) -> dict[str, Any]:
    """Partitions by number, so that the file stays small. `names`: parts of names and what is written for them."""
    return _Writing(history, names).written()


class _Writing:
    def __init__(self, history: History, names: Mapping[str, str]) -> None:
        self._history, self._evidence, self._names = history, history.evidence, names
        first, last = self._evidence.readings[0].ends, self._evidence.readings[-1].ends
        used = {each.commit.log for each in self._evidence.commits} | self._evidence.tails.keys()
        self._keys = sorted(key for key in last if key in used or first.get(key) != last[key] or "__" not in key.topic)
        self._numbers = {key: number for number, key in enumerate(self._keys)}

    def written(self) -> dict[str, Any]:
        evidence = self._evidence
        return {
            "partitions": [[self._name(key.topic), key.partition] for key in self._keys],
            "readings": [
                {"before": self._logs(each.before), "ends": self._ends(each.ends), "after": self._logs(each.after)}
                for each in evidence.readings
            ],
            "changes": [[*each[:2], self._name(each[2]), *each[3:]] for each in evidence.changes or ()],
            "listed": [[number, self._name(each[0]), *each[1:]] for number, each in sorted(evidence.listed.items())],
            "tails": [self._tail(key) for key in self._keys if key in evidence.tails],
            "commits": [self._commit(each) for each in evidence.commits if each.commit.partition in self._numbers],
            "later": [
                [self._numbers[key], sorted(markers.items())]
                for key, markers in sorted(self._history.later.items())
                if key in self._numbers and markers
            ],
            "faults": [self._name(each) for each in self._history.faults],
        }

    def _name(self, text: str) -> str:
        for old, new in self._names.items():
            text = text.replace(old, new)
        return text

    def _logs(self, ends: Mapping[int, int]) -> dict[str, int]:
        last = self._evidence.readings[-1].after
        return {str(log): end for log, end in sorted(ends.items()) if last[log]}

    def _ends(self, ends: Ends) -> list[int]:
        return [ends[key] for key in self._keys]

    def _tail(self, key: PartitionId) -> dict[str, Any]:
        tail = self._evidence.tails[key]
        return {
            "partition": self._numbers[key],
            "markers": [[int(value) for value in each] for each in tail.markers],
            "open": [[each.producer_id, each.first_offset, each.last_offset] for each in tail.open],
            "has_plain": tail.has_plain,
        }

    def _commit(self, logged: LoggedCommit) -> list[Any]:
        commit, producer = logged
        places = [self._numbers[commit.partition], commit.offset, self._numbers[commit.log], commit.position]
        return [self._name(commit.group), *places, producer]


def decode_history(item: Mapping[str, Any]) -> History:
    keys = [PartitionId(topic, "", number) for topic, number in item["partitions"]]
    evidence = CutEvidence(
        readings=tuple(
            EndsReading(
                before=_logs(each["before"]),
                ends=dict(zip(keys, each["ends"], strict=True)),
                after=_logs(each["after"]),
            )
            for each in item["readings"]
        ),
        changes=tuple(
            TransactionChange(*row[:5], None if row[5] is None else TransactionStatus(row[5]))
            for row in item["changes"]
        ),
        listed={number: ListedTransaction(name, of, TransactionStatus(s)) for number, name, of, s in item["listed"]},
        tails={keys[each["partition"]]: _tail(each) for each in item["tails"]},
        commits=tuple(_commit(row, keys) for row in item["commits"]),
    )
    later = {keys[number]: dict(map(tuple, markers)) for number, markers in item["later"]}
    return History(evidence=evidence, later=later, faults=tuple(item["faults"]))


def _logs(ends: Mapping[str, int]) -> dict[int, int]:
    return {int(log): end for log, end in ends.items()}


def _tail(item: Mapping[str, Any]) -> PartitionTail:
    return PartitionTail(
        markers=tuple(Marker(*row[:3], bool(row[3]), row[4]) for row in item["markers"]),
        open=tuple(
            OpenTransaction(producer_id=producer, first_offset=first, last_offset=last)
            for producer, first, last in item["open"]
        ),
        has_plain=item["has_plain"],
    )


def _commit(row: list[Any], keys: list[PartitionId]) -> LoggedCommit:
    group, partition, offset, log, position, producer = row
    return LoggedCommit(
        GroupCommit(
            group=group,
            partition=keys[partition],
            offset=offset,
            log=keys[log],
            position=position,
            exactly_once=producer >= 0,
        ),
        producer,
    )
