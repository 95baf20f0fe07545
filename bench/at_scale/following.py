"""A day of a backup that follows: its rounds, what they put, and the roll-ups that the real planner finds. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from bench.at_scale.costs import UnitCosts
from bench.at_scale.cutting import backup_tasks
from bench.at_scale.simulate import Stage, simulate_round
from bench.at_scale.worlds import Following
from offsite.follow.follower import PACKED_FROM
from offsite.repository.segments.segment import Compression, Segment
from offsite.repository.segments.writer import FRAME_BYTES
from offsite.upkeep.roll_up import RollUp, find_roll_ups

_OFFSETS = 1_000
"""Of the news of a partition in a round: any number does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """`round`: one of them. `written_again_bytes`: by roll-ups."""

    following: Following
    round: Stage
    puts: float
    gets: float
    roll_up_puts: float
    roll_up_gets: float
    written_again_bytes: float


def simulate_day(following: Following, costs: UnitCosts) -> Day:
    world, rounds = following.world, following.rounds
    news_bytes = following.day_bytes // rounds // following.busy
    tasks = backup_tasks([(news_bytes, following.busy)], slots=world.slots, packed_from=PACKED_FROM)
    one = simulate_round(replace(world, partitions=world.partitions), costs.backup, costs.driver, tasks)
    done = _roll_ups(news_bytes, rounds)
    packs = rounds * world.slots * bool(done["packed"])  # those of a round share one for each slot
    return Day(
        following=following,
        round=one,
        puts=one.puts * rounds,
        gets=one.gets * rounds,
        roll_up_puts=done["puts"] * following.busy + packs,
        roll_up_gets=done["gets"] * following.busy + packs,
        written_again_bytes=done["bytes"] * following.busy,
    )


def _roll_ups(news_bytes: int, rounds: int) -> Counter[str]:
    """What the roll-ups of one partition take in so many rounds, after each of which it is looked at."""
    segments: list[Segment] = []
    found: Counter[str] = Counter()
    for number in range(rounds):
        segments.append(_segment(number, news_bytes))
        for roll_up in find_roll_ups(segments):
            segments = _with(segments, roll_up)
            indexed = roll_up.raw_bytes > FRAME_BYTES
            found["puts"] += (1 + indexed) * roll_up.alone
            found["gets"] += sum(map(_gets, roll_up.segments)) + roll_up.alone
            found["packed"] += not roll_up.alone
            found["bytes"] += roll_up.raw_bytes
    return found


def _gets(segment: Segment) -> int:
    frames = -(-segment.raw_bytes // FRAME_BYTES)
    return frames + (frames > 1)


def _with(segments: list[Segment], roll_up: RollUp) -> list[Segment]:
    first = segments.index(roll_up.segments[0])
    made = replace(
        roll_up.segments[0],
        end=roll_up.segments[-1].end,
        last_offset=roll_up.segments[-1].last_offset,
        raw_bytes=roll_up.raw_bytes,
    )
    return [*segments[:first], made, *segments[first + len(roll_up.segments) :]]


def _segment(number: int, size_bytes: int) -> Segment:
    start = number * _OFFSETS
    return Segment(
        key=f"backups/b/topics/t/partition=0/{start:020d}.log",
        topic="t",
        topic_id="t",
        partition=0,
        start=start,
        end=start + _OFFSETS,
        first_offset=start,
        last_offset=start + _OFFSETS - 1,
        records=_OFFSETS,
        control_batches=0,
        batches=1,
        largest_batch_bytes=size_bytes,
        raw_bytes=size_bytes,
        stored_bytes=size_bytes,
        compression=Compression.NONE,
        base_timestamp_min_ms=0,
        timestamp_max_ms=0,
        timestamp_types=(0,),
        leader_epochs=(0,),
        has_transactions=False,
        hash="",
    )
