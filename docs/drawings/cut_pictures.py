"""The pictures of docs/explanation/cut.md, drawn from a recorded history by what the real code makes of it.

Only which transactions are shown is chosen here. That they are what the words say is checked by
`tests/unit/cut/test_cut_pictures.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from offsite.cut.cut import Cut
from offsite.cut.episodes import window_of
from offsite.cut.greatest import greatest_cut
from offsite.cut.readings import clean_readings, transactional_ids
from offsite.cut.window import GroupCommit
from offsite.log.range import PartitionId
from offsite.log.transaction_state import TransactionChange

from .history import History
from .svg import Bar, Lane, Line, draw

TORN, LEFT_OUT, OPEN = "clerk-1", "payer-2", "payer-3"
"""One of whose transactions has half of its markers below the first ends; one that has committed and is left out; one
that is under way."""
FIRST = 0
"""The reading that is shown as ends that fit nothing."""
COORDINATOR = "__transaction_state"


@dataclass(frozen=True)
class Shown:
    """A history and what the code says of it."""

    history: History

    @cached_property
    def cut(self) -> Cut:
        return greatest_cut(self.ends(-1), window_of(self.history.evidence))

    @cached_property
    def names(self) -> Mapping[int, str]:
        evidence = self.history.evidence
        return transactional_ids(evidence.changes or (), evidence.listed)

    @cached_property
    def clean(self) -> Mapping[str, Sequence[int]]:
        evidence = self.history.evidence
        return clean_readings(evidence.readings, evidence.changes or (), evidence.listed)

    def ends(self, reading: int) -> Mapping[PartitionId, int]:
        return self.history.evidence.readings[reading].ends

    def key(self, name: str) -> PartitionId:
        (found,) = (each for each in self.ends(-1) if str(each) == name)
        return found

    def changes(self, name: str) -> list[TransactionChange]:
        return [each for each in self.history.evidence.changes or () if each.transactional_id == name]

    def commits(self, producer: str) -> list[GroupCommit]:
        return [each for each, of in self.history.evidence.commits if self.names.get(of) == producer]

    def last_ended(self, producer: str, key: PartitionId) -> tuple[int, int]:
        """The first record and the marker of the last transaction of a producer that was seen to end in a partition."""
        return [
            (each.first_offset, each.offset)
            for each in self.history.evidence.tails[key].markers
            if self.names.get(each.producer_id) == producer
        ][-1]

    def under_way(self, producer: str, key: PartitionId) -> tuple[int, int | None]:
        """The first record of the transaction of a producer that was open at the end, and its marker that came then."""
        (first,) = (
            each.first_offset
            for each in self.history.evidence.tails[key].open
            if self.names.get(each.producer_id) == producer
        )
        later = {self.names.get(of): marker for of, marker in self.history.later.get(key, {}).items()}
        return first, later.get(producer)


def cut_pictures(history: History) -> dict[str, str]:
    """The pictures by file name."""
    shown = Shown(history)
    return {
        "cut-ends.svg": ends_picture(shown),
        "cut-left-out.svg": left_out_picture(shown),
        "cut-readings.svg": readings_picture(shown),
    }


def ends_picture(shown: Shown) -> str:
    """One transaction, and the ends of one reading."""
    read, wrote, log = shown.key("paid/0"), shown.key("receipts/0"), shown.key("__consumer_offsets/1")
    before, said = shown.commits(TORN)[-3:-1]
    ends = shown.ends(FIRST)
    lanes = [
        Lane(
            name="paid/0, which it read",
            low=before.offset - 4,
            high=said.offset + 6,
            bars=(Bar(first=before.offset, last=said.offset - 1, style="left"),),
            lines=(Line(offset=said.offset, label=f"read below {said.offset}", style="group"),),
            numbers=(before.offset, said.offset - 1),
            note=f"Its end was read far behind, at {ends[read]}.",
        ),
        _torn_lane(
            shown,
            wrote,
            f"{wrote}, which it wrote",
            note="Its marker is missing: the receipts are undecided.",
        ),
        _torn_lane(
            shown, log, f"{log}", note=f"Its marker is there: the group has read paid/0 below {said.offset}, for good."
        ),
    ]
    return draw(
        "One transaction, and ends that were read while its markers landed",
        f"Three partitions. The transaction of {TORN} read paid/0 up to offset {said.offset}, wrote to receipts/0 and "
        f"committed its offset in {log}. The end that was read of receipts/0 lies before its commit marker, that of "
        f"{log} behind it. So the group has read what has no receipts.",
        lanes,
        (
            ("left", f"the transaction of {TORN}"),
            ("marker", "its commit marker"),
            ("end", "an end that was read"),
            ("group", "what it says that it read"),
        ),
    )


def _torn_lane(shown: Shown, key: PartitionId, name: str, *, note: str) -> Lane:
    first, marker = shown.last_ended(TORN, key)
    end = shown.ends(FIRST)[key]
    return Lane(
        name=name,
        low=min(first, end) - 3,
        high=max(marker, end) + 4,
        bars=(Bar(first=first, last=marker - 1, marker=marker, style="left"),),
        lines=(Line(offset=end, label=f"end {end}"),),
        numbers=(first, marker),
        note=note,
    )


def left_out_picture(shown: Shown) -> str:
    """The end of the commit, what is left out there, and where the group goes."""
    said = shown.commits(LEFT_OUT)[-1]
    (group,) = (each for each in shown.cut.groups if (each.group, each.partition) == (said.group, said.partition))
    keys = [shown.key(name) for name in ("paid/1", "ledger/0", "__consumer_offsets/0")]
    read = Lane(
        name=f"{said.partition}, which they read",
        low=group.offset - 8,
        high=said.offset + 12,
        bars=(
            Bar(first=group.offset - 8, last=group.offset - 1, style="kept"),
            Bar(first=group.offset, last=said.offset - 1, style="left"),
        ),
        lines=(
            Line(offset=group.offset, label=f"the group goes to {group.offset}", style="group", is_left=True),
            Line(offset=said.offset, label=f"not to {said.offset}", style="group"),
        ),
        numbers=(group.offset - 1, said.offset - 1),
    )
    return draw(
        "What the cut leaves out of the same commit, and where the group goes",
        f"Three partitions that payers write to, and one that they read. {LEFT_OUT} has all of its markers below the "
        f"ends, but nobody can know that from the ends, so its transaction is left out. {OPEN} was under way. The rest "
        f"is kept. The group goes to offset {group.offset} of {said.partition}, before what {LEFT_OUT} read.",
        [*(_left_out_lane(shown, key) for key in keys), read],
        (
            ("kept", "kept"),
            ("left", f"committed, left out: {LEFT_OUT}"),
            ("open", f"under way: {OPEN}"),
            ("marker", "commit marker"),
            ("end", "end of the commit"),
            ("group", "offset of the group"),
        ),
    )


def _left_out_lane(shown: Shown, key: PartitionId) -> Lane:
    first, marker = shown.last_ended(LEFT_OUT, key)
    open_first, open_marker = shown.under_way(OPEN, key)
    end = shown.ends(-1)[key]
    low, high = min(first, open_first) - 8, max(end, open_marker or end) + 4
    open_bar = Bar(first=open_first, last=(open_marker or end) - 1, marker=open_marker, style="open", row=1)
    kept = tuple(_kept(shown, key, low))
    return Lane(
        name=str(key),
        low=low,
        high=high,
        bars=(*kept, Bar(first=first, last=marker - 1, marker=marker, style="left"), open_bar),
        lines=(Line(offset=end, label=f"end {end}"),),
        numbers=(first, marker),
    )


def _kept(shown: Shown, key: PartitionId, low: int) -> Iterator[Bar]:
    """Committed transactions of the partition that the cut keeps, as far as they are in the picture."""
    left_out = shown.cut.markers_left_out().get(key, ())
    for each in shown.history.evidence.tails[key].markers:
        if each.committed and each.offset not in left_out and each.first_offset >= low:
            row = 0 if shown.names.get(each.producer_id) == LEFT_OUT else 1
            yield Bar(first=each.first_offset, last=each.offset - 1, marker=each.offset, style="kept", row=row)


def readings_picture(shown: Shown) -> str:
    """The readings of the commit beside what the coordinator of one producer wrote meanwhile."""
    changes = [each for each in shown.changes(TORN) if each.position >= _looks(shown)[0][0] - 5]
    log = changes[0].log
    low, high = changes[0].position - 1, changes[-1].position + 6
    states = Lane(
        name=f"{COORDINATOR}/{log}",
        low=low,
        high=high,
        bars=tuple(_preparing(changes, high)),
        numbers=tuple(each.position for each in changes),
        note="Orange: its markers are on their way, from prepare to complete.",
    )
    lanes = [_reading_lane(shown, number, low, high) for number in range(len(_looks(shown)))]
    described = ", ".join(
        f"reading {number + 1} {'clean' if number in shown.clean[TORN] else 'not clean'}"
        for number in range(len(lanes))
    )
    return draw(
        f"Readings between two looks at the coordinator of {TORN}",
        f"The records of {TORN} in its log of coordinators, and the readings of the commit, each from the end of that "
        f"log before to its end after the ends were read: {described}.",
        [states, *lanes],
        (
            ("left", "preparing: markers on their way"),
            ("other", "ongoing"),
            ("clean", "looks of a clean reading"),
            ("unclean", "of one that is not, and the ends read between them"),
        ),
    )


def _looks(shown: Shown) -> list[tuple[int, int]]:
    log = shown.changes(TORN)[0].log
    return [(each.before[log], each.after[log]) for each in shown.history.evidence.readings]


def _preparing(changes: Sequence[TransactionChange], high: int) -> Iterator[Bar]:
    """Each record of the producer up to the next one: orange where it is preparing."""
    following = [*(each.position for each in changes[1:]), high]
    for each, after in zip(changes, following, strict=True):
        is_preparing = each.status is not None and each.status.is_preparing
        yield Bar(first=each.position, last=after - 1, style="left" if is_preparing else "other")


def _reading_lane(shown: Shown, number: int, low: int, high: int) -> Lane:
    before, after = _looks(shown)[number]
    style, verdict = ("clean", "clean") if number in shown.clean[TORN] else ("unclean", "not clean")
    ends, is_left = shown.ends(number), before > (low + high) // 2
    label = ", ".join(f"{name} {ends[shown.key(name)]}" for name in ("receipts/0", "__consumer_offsets/1"))
    return Lane(
        name=f"reading {number + 1}: {verdict}",
        low=low,
        high=high,
        bars=(Bar(first=before, last=after - 1, style="open"),) if after > before else (),
        lines=tuple(
            Line(offset=each, label=label * (each == (before if is_left else after)), style=style, is_left=is_left)
            for each in sorted({before, after})
        ),
    )
