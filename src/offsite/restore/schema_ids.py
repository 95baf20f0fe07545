"""What the schema ids in restored records mean at the target, for the plan. Reads the first records and, where one is
named, the registry of the target; changes nothing.

Nobody sees an id in a plan, and over another registry it names another schema: consumers fail, or read nonsense. So the
plan names the topics in which ids were seen. It claims nothing of topics in which none was.
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
from offsite.model.names import amount, named
from offsite.model.schema_registry import RegistrySnapshot, StoredSchema
from offsite.points.held_schemas import held_schemas
from offsite.points.point_in_time import PartitionChain
from offsite.repository.backup import Backup
from offsite.repository.segments.reader import SegmentReader
from offsite.restore.write.plan import RestorePlan
from offsite.schemas.framing import framed_schema_id
from offsite.schemas.id_rewrite import TopicIds
from offsite.schemas.read_registry import meaning_of, read_registry
from offsite.schemas.registry_client import RegistryAddress, RegistryClient
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
_ELSEWHERE = "over another registry than the source's they mean something else, and a restore leaves them as they are"


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
        return f"{self.topic} ({', '.join(f'{name} {_some(ids)}' for name, ids in columns.items() if ids)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIds:
    """The `topics` with ids. `registry`: the registry of the target that was compared, empty without one. `held`:
    number of ids whose schemas the backup has; `other`: those of them that mean something else there, or nothing."""

    topics: tuple[TopicWithIds, ...] = ()
    registry: str = ""
    held: int = 0
    other: tuple[int, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        """Sentences for a person who is about to restore."""
        if self.registry and not self.held:
            yield f"the backup holds no schemas: nobody can tell what the ids in its records mean at {self.registry}"
        elif self.registry and not self.other:
            yield f"{self.registry} gives {amount(self.held, 'schema id')} of the backup the same meaning"
        elif self.registry:
            yield (
                f"{len(self.other):,} of {amount(self.held, 'schema id')} of the backup mean something else at "
                f"{self.registry}, or nothing: {_some(self.other)}"
            )
        other = frozenset(self.other)
        proven = [topic for topic in self.topics if topic.is_proven and self._concerns(topic, other)]
        if proven:
            way = "" if self.registry else "; --registry URL compares them with the registry of the target"
            yield f"schema ids are in the records of {_listed(proven)}: {_ELSEWHERE}{way}"
        if alike := [topic for topic in self.topics if not topic.is_proven]:
            yield (
                f"records begin as those with schema ids do in {_listed(alike)}, and the backup has no schema under a "
                f"subject of the topic to prove it: if they are ids, {_ELSEWHERE}"
            )

    def _concerns(self, topic: TopicWithIds, other: frozenset[int]) -> bool:
        return not self.registry or not other.isdisjoint((*topic.keys, *topic.values))


def foresee_schema_ids(
    backup: Backup, plan: RestorePlan, *, is_other_cluster: bool, registry: RegistryAddress | None
) -> SchemaIds:
    """The ids in the records of `plan`, and what they mean at `registry`, that of the target. Without one, nothing is
    said where the ids keep their meaning: on the cluster of the backup, and where the topic of the registry is restored
    along. A damaged object is no error of the plan: its records are not sampled. Raises the errors of `RegistryClient`
    and `read_registry`."""
    keeps_meaning = not is_other_cluster or any(topic.source.holds_schemas for topic in plan.topics)
    if registry is None and keeps_meaning:
        return SchemaIds()
    held = _held(backup)
    topics = tuple(_topics_with_ids(plan, held, backup.store))
    if registry is None:
        return SchemaIds(topics=topics)
    client = RegistryClient(registry)
    ids = [schema for schema in held.schemas if not schema.context]
    other = other_meanings(held, read_registry(client)) if ids else ()
    return SchemaIds(topics=topics, registry=client.place, held=len(ids), other=other)


def other_meanings(held: RegistrySnapshot, there: RegistrySnapshot) -> tuple[int, ...]:
    """The ids of `held`, in the default context, that `there` gives another meaning or none, rising."""
    return tuple(
        schema.id
        for schema in held.schemas
        if not schema.context
        and ((now := there.by_id.get(("", schema.id))) is None or _whole(held, schema) != _whole(there, now))
    )


def _whole(snapshot: RegistrySnapshot, schema: StoredSchema) -> list[object]:
    """What a schema says with all that it uses. The subjects of what it uses may have other names elsewhere."""
    return [meaning_of(used) for used in snapshot.with_references(schema)]


def _held(backup: Backup) -> RegistrySnapshot:
    try:
        return held_schemas(backup)
    except OffsiteError as error:
        warned("schemas_not_read", error=error.id, why=error.message)
        return RegistrySnapshot()


def _topics_with_ids(plan: RestorePlan, held: RegistrySnapshot, store: Store) -> Iterator[TopicWithIds]:
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
    ids = {framed_schema_id(content) for content in contents}
    is_number = all(len(content) == _LONG_BYTES for content in contents)
    if len(contents) < _ALIKE_MIN or len(ids) > _ALIKE_IDS_MAX or is_number or not ids.isdisjoint({None, 0}):
        return ()
    return tuple(sorted(schema_id for schema_id in ids if schema_id is not None))


def _listed(topics: Sequence[TopicWithIds]) -> str:
    return named(list(map(str, topics)), most=_NAMED_MAX, of="topics")


def _some(ids: Sequence[int]) -> str:
    return named([str(schema_id) for schema_id in ids], most=_NAMED_MAX)
