"""Windows against a world that knows which marker belongs to which transaction."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from offsite.cut import episodes
from offsite.cut import readings as clean
from offsite.cut.episodes import window_of
from offsite.cut.greatest import greatest_cut
from offsite.cut.readings import CutEvidence, EndsReading
from offsite.cut.window import SpanOutcome, TransactionSpan, Window
from offsite.log.markers import Marker
from offsite.log.range import PartitionId
from offsite.log.transaction_state import TransactionChange, TransactionStatus
from offsite.log.transactions import PartitionTail
from tests.worlds.cut.transaction_world import Seen, Transaction, seen

WORLDS = 2_000


@cache
def worlds() -> tuple[Seen, ...]:
    return tuple(seen(seed) for seed in range(WORLDS))


def wrong(view: Seen, window: Window) -> set[str]:
    """All that is wrong with a window, by the truth."""
    return {*_wrong_spans(view, window), *_wrong_levels(view, window), *_wrong_reads(view, window)}


def _wrong_spans(view: Seen, window: Window) -> set[str]:
    found: set[str] = set()
    ends = view.evidence.readings[-1].ends
    known = {
        (key, marker): span
        for span in window.transactions
        for key, each in span.written.items()
        for marker in each.markers
    }
    if len(known) != sum(len(each.markers) for span in window.transactions for each in span.written.values()):
        found.add("a marker in two spans")
    for transaction in view.world.transactions:
        landed = {key: marker for key, marker in transaction.markers.items() if marker < ends[key]}
        homes = [known.get(each) for each in landed.items()]
        home = next((each for each in homes if each), None)
        if home is None:
            continue
        if not transaction.is_committed:
            found.add("aborted taken for committed")
        is_same = all(each in (None, home) for each in homes)
        is_older = all(marker < view.tail_starts[key] for key, marker in landed.items() if not known.get((key, marker)))
        if not is_same or not is_older or (None in homes and home.is_whole):
            found.add("torn between spans")
        if transaction.missing() and home.outcome is not SpanOutcome.OPEN:
            found.add("half in a span that may be kept")
        if home.outcome is not SpanOutcome.OPEN and len(landed) < len(transaction.partitions):
            found.add("half in a span that may be kept")
        for key, each in home.written.items():
            is_inside = known.get((key, landed.get(key, -1))) is home
            if is_inside and key in transaction.records and transaction.records[key][0] < each.first:
                found.add("begins before its span")
    return found


def _wrong_levels(view: Seen, window: Window) -> set[str]:
    """Keep the first so many spans of each producer, for every such number: transactions are whole or away."""
    found: set[str] = set()
    spans: defaultdict[str, list[TransactionSpan]] = defaultdict(list)
    for span in window.transactions:
        spans[span.name or str(span.producer_id)].append(span)
    for own in spans.values():
        if [each.number for each in own] != sorted({each.number for each in own}):
            found.add("numbers do not rise")
    for transaction in view.world.transactions:
        own = spans[transaction.name] + spans[str(transaction.producer_id)]
        found |= {
            _state(view, window, transaction, own[kept:])
            for kept in range(len(own) + 1)
            if all(each.is_whole for each in own[kept:])
            and all(each.outcome is SpanOutcome.COMMIT for each in own[:kept])
        }
    return found - {""}


def _state(view: Seen, window: Window, transaction: Transaction, left_out: list[TransactionSpan]) -> str:
    """What is wrong with a transaction when these spans are left out."""
    ends = view.evidence.readings[-1].ends
    away = {(key, marker) for span in left_out for key, each in span.written.items() for marker in each.markers}
    begun = [key for key in transaction.records if transaction.records[key][0] < ends[key]]
    shown = [
        key
        for key in transaction.records
        if transaction.is_committed
        and transaction.markers.get(key, ends[key]) < ends[key]
        and (key, transaction.markers[key]) not in away
    ]
    for key in begun:
        if transaction.markers.get(key, ends[key]) >= ends[key] and not any(
            span.producer_id == transaction.producer_id
            and key in span.written
            and span.written[key].first <= transaction.records[key][0]
            for span in left_out
        ):
            return "what is undecided has no span"
    if shown and len(shown) < len(transaction.records):
        hidden = {key.topic for key in transaction.records if key in begun and key not in shown}
        behind = {key.topic for key in transaction.records if key not in begun}
        if not (hidden | behind | {key.topic for key in shown}) & window.unpaired:
            return "half shown"
    return ""


def _wrong_reads(view: Seen, window: Window) -> set[str]:
    """Each commit of a committed transaction is where its marker is, and no other one is anywhere."""
    ends = view.evidence.readings[-1].ends
    where: dict[object, TransactionSpan | None] = dict.fromkeys(window.commits)
    where |= {read: span for span in window.transactions for read in span.reads}
    found: set[str] = set()
    for transaction in view.world.transactions:
        for read in transaction.reads:
            if not view.tail_starts[read.log] <= read.position < ends[read.log]:
                continue
            marker = transaction.markers.get(read.log, ends[read.log])
            if marker >= ends[read.log]:
                if (span := where.get(read)) is None or span.outcome is not SpanOutcome.OPEN:
                    found.add("an undecided commit counts")
            elif not transaction.is_committed:
                found |= {"an aborted commit counts"} if read in where else set()
            elif read not in where:
                found.add("a commit is lost")
            elif (span := where[read]) is not None and marker not in span.written[read.log].markers:
                found.add("a commit in a wrong span")
    return found


def test_spans_are_whole_in_every_world() -> None:
    for seed, view in enumerate(worlds()):
        assert not (found := wrong(view, window_of(view.evidence))), f"seed {seed}: {found}"


def test_worlds_are_worth_it() -> None:
    windows = [window_of(view.evidence) for view in worlds()]
    spans = [span for window in windows for span in window.transactions]
    assert sum(span.outcome is SpanOutcome.COMMIT and span.is_whole for span in spans) > WORLDS // 4
    assert sum(not span.is_whole for span in spans) > WORLDS // 4
    assert sum(
        span.outcome is SpanOutcome.OPEN and any(each.markers for each in span.written.values()) for span in spans
    ) > (WORLDS // 10)
    assert sum(bool(window.unpaired) for window in windows) > WORLDS // 10
    assert sum(not window.unpaired and bool(window.transactions) for window in windows) > WORLDS // 4


def _blind_behind(reading: EndsReading, log: int, pending: list[tuple[int, int]]) -> bool:
    """A prepare between the two looks is overlooked."""
    before = reading.before.get(log)
    return before is not None and not any(since < before <= until for since, until in pending)


def _blind_before(reading: EndsReading, log: int, pending: list[tuple[int, int]]) -> bool:
    """What was preparing already is overlooked."""
    before, after = reading.before.get(log), reading.after.get(log)
    return None not in (before, after) and not any(before <= since < after for since, _ in pending)  # type: ignore[operator]


def _later(*arguments: object) -> dict[str, tuple[int, ...]]:
    """The ends of the reading behind the clean one."""
    last = len(arguments[0]) - 1  # type: ignore[arg-type]
    return {
        name: tuple(sorted({min(each + 1, last) for each in own}))
        for name, own in ORIGINAL_CLEAN(*arguments).items()  # type: ignore[arg-type]
    }


def _known(*arguments: object) -> dict[str, tuple[int, ...]]:
    """Nothing known is taken for clean."""
    every = tuple(range(len(arguments[0])))  # type: ignore[arg-type]
    return {name: own or every for name, own in ORIGINAL_CLEAN(*arguments).items()}  # type: ignore[arg-type]


ORIGINAL_CLEAN = clean.clean_readings
MISTAKES: dict[str, tuple[object, str, object]] = {
    "a prepare inside a reading is overlooked": (clean, "_is_clean", _blind_behind),
    "a pending prepare is overlooked": (clean, "_is_clean", _blind_before),
    "the first record says nothing about before": (clean, "_COMPLETE", frozenset()),
    "a listed prepare is quiet": (clean, "_LISTED_QUIET", frozenset(TransactionStatus)),
    "the ends of another reading": (episodes, "clean_readings", _later),
    "unknown is clean": (episodes, "clean_readings", _known),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, made = MISTAKES[mistake]
    monkeypatch.setattr(place, name, made)
    seen_as = {"half in a span that may be kept", "torn between spans", "half shown"}
    assert any(seen_as & wrong(view, window_of(view.evidence)) for view in worlds())


WINDOW_MISTAKES: dict[str, tuple[Callable[[TransactionSpan], TransactionSpan], str]] = {
    "a span is whole that is not": (lambda span: replace(span, is_whole=True), "torn between spans"),
    "a span begins late": (
        lambda span: replace(span, written={key: each._replace(first=each.last) for key, each in span.written.items()}),
        "begins before its span",
    ),
    "reads are lost": (lambda span: replace(span, reads=()), "a commit is lost"),
}


@pytest.mark.parametrize("mistake", WINDOW_MISTAKES)
def test_a_wrong_window_is_caught(mistake: str) -> None:
    change, finding = WINDOW_MISTAKES[mistake]

    def changed(window: Window) -> Window:
        return replace(window, transactions=tuple(change(each) for each in window.transactions))

    assert any(finding in wrong(view, changed(window_of(view.evidence))) for view in worlds()[:500])


def test_the_cut_of_a_large_window_takes_less_than_two_seconds() -> None:
    """From evidence to cut: 2,000 partitions, 10,000 transactions over ten of them each, by 1,000 producers."""
    keys = [PartitionId(f"topic-{number // 20}", "id", number) for number in range(2_000)]
    markers: dict[PartitionId, list[Marker]] = {key: [] for key in keys}
    changes = []
    for number in range(10_000):
        producer = number % 1_000
        for status in (TransactionStatus.ONGOING, TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT):
            changes.append(TransactionChange(0, len(changes), f"app-{producer}", producer, 0, status))
        for part in range(10):
            own = markers[keys[(number * 7 + part * 191) % 2_000]]
            own.append(Marker(len(own) * 2 + 1, producer, 0, True, len(own) * 2))
    readings = tuple(
        EndsReading(before={0: at}, ends=dict.fromkeys(keys, at // 300), after={0: at + 5})
        for at in (0, 9_000, 18_000, 27_000, 30_000)
    )
    tails = {key: PartitionTail(markers=tuple(own)) for key, own in markers.items()}
    evidence = CutEvidence(readings=readings, changes=tuple(changes), tails=tails)
    began_s = time.process_time()
    window = window_of(evidence)
    cut = greatest_cut(dict(readings[-1].ends), window)
    took_s = time.process_time() - began_s
    print(f"{len(window.transactions):,} spans, {len(cut.left_out):,} left out in {took_s:.2f} s")  # noqa: T201
    assert took_s < 4  # the bar is 2 s on a quiet machine
    assert len(window.transactions) > 2_000
