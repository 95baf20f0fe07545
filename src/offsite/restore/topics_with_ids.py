"""The topics in whose first records schema ids are: what the backup's schemas prove, and what only looks so.

A plan reads the beginnings of some partitions. It claims nothing of topics in which it saw none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.model.names import named
from offsite.model.schema_registry import RegistrySnapshot
from offsite.points.point_in_time import PartitionChain
from offsite.repository.segments.reader import SegmentReader
from offsite.restore.write.plan import RestorePlan
from offsite.schemas.framing import PREFIX, framed_schema_id
from offsite.schemas.id_rewrite import TopicIds
from offsite.stores.store import Store

RECORDS_SAMPLED = 100
"""Of a partition, from its beginning: a serializer frames each record, or none."""
PARTITIONS_SAMPLED = 3
"""Of a topic. A plan has to be quick with thousands of partitions in an object store."""
TOPICS_SAMPLED = 1_000
_READERS = 8
_NAMED_MAX = 5
_ALIKE_MIN, _ALIKE_IDS_MAX = 3, 5
_LONG_BYTES = 8
"""Numbers of eight bytes begin with a zero and a number that hardly changes, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWithIds:
    """A topic in whose first records ids were seen: `keys` and `values` have them, rising. `is_proven`: the backup has
    schemas of these ids under subjects of the topic, and they decode the records. Otherwise all sampled keys, or all
    sampled values, begin as records with ids do, and nothing in the backup proves it."""

    topic: str
    keys: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    is_proven: bool = True

    def __str__(self) -> str:
        columns = {"keys": self.keys, "values": self.values}
        return f"{self.topic} ({', '.join(f'{name} {some_ids(ids)}' for name, ids in columns.items() if ids)})"


def topics_with_ids(plan: RestorePlan, held: RegistrySnapshot, store: Store) -> Iterator[TopicWithIds]:
    """The topics of `plan` with ids, by the schemas of `held`. A damaged object is no error: its records are not
    sampled."""
    chains = defaultdict[str, list[PartitionChain]](list)
    for chain in plan.all_chains:
        if chain.segments and len(chains[chain.source.topic]) < PARTITIONS_SAMPLED:
            chains[chain.source.topic].append(chain)
    names = [topic.source.topic for topic in plan.topics if chains[topic.source.topic]][:TOPICS_SAMPLED]
    with ThreadPoolExecutor(_READERS, thread_name_prefix="schema-ids") as readers:
        samples = readers.map(partial(_sample, store=store), (chains[name] for name in names))
        for name, records in zip(names, samples, strict=True):
            seen = _proven(name, records, held) or _alike(name, records)
            if seen is not None:
                yield seen


def _sample(chains: Sequence[PartitionChain], *, store: Store) -> list[Record]:
    records = list[Record]()
    for chain in chains:
        try:
            records += islice(_records(chain, store), RECORDS_SAMPLED)
        except OffsiteError as error:
            warned("not_sampled", error=error.id, why=error.message, topic=chain.source.topic)
    return records


def _records(chain: PartitionChain, store: Store) -> Iterator[Record]:
    for segment in chain.segments:
        for chunk in SegmentReader(store=store, segment=segment).chunks(end=min(segment.end, chain.end)):
            for header in chunk.batches:
                if not header.is_control:
                    yield from iterate(header.view(chunk.data), header)


def _proven(topic: str, records: Iterable[Record], held: RegistrySnapshot) -> TopicWithIds | None:
    of_topic, keys, values = TopicIds(held, topic, {}), set[int](), set[int]()
    for record in records:
        for content, is_key, ids in ((record.key, True, keys), (record.value, False, values)):
            schema_id = None if content is None else of_topic.id_in(content, is_key=is_key)
            if schema_id is not None:
                ids.add(schema_id)
    if not keys and not values:
        return None
    return TopicWithIds(topic=topic, keys=tuple(sorted(keys)), values=tuple(sorted(values)))


def _alike(topic: str, records: Sequence[Record]) -> TopicWithIds | None:
    keys = _alike_ids([record.key for record in records if record.key])
    values = _alike_ids([record.value for record in records if record.value])
    return TopicWithIds(topic=topic, keys=keys, values=values, is_proven=False) if keys or values else None


def _alike_ids(contents: Sequence[bytes]) -> tuple[int, ...]:
    """The numbers that look like ids, where all of `contents` have one; else nothing."""
    ids = {framed_schema_id(content) if len(content) > PREFIX.size else None for content in contents}
    is_number = all(len(content) == _LONG_BYTES for content in contents)
    if len(contents) < _ALIKE_MIN or len(ids) > _ALIKE_IDS_MAX or is_number or not ids.isdisjoint({None, 0}):
        return ()
    return tuple(sorted(schema_id for schema_id in ids if schema_id is not None))


def some_ids(ids: Sequence[int]) -> str:
    """The first of `ids`, for a person."""
    return named([str(schema_id) for schema_id in ids], most=_NAMED_MAX)
