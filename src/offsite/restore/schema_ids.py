"""What the schema ids in restored records mean at the target, and what a restore does about it, for the plan. Reads the
first records and, where one is named, the registry of the target; changes nothing.

Nobody sees an id in a plan, and over another registry it names another schema: consumers fail, or read nonsense. With a
registry, the plan chooses among the ways to keep the records readable (`SchemaIdsWay`), and the restore carries it out
before its first record (`registration`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.model.errors import BadOption, OffsiteError, SchemasRefused
from offsite.model.journal import warned
from offsite.model.names import amount, named
from offsite.model.options import SchemaIdsChoice, SchemaIdsWay
from offsite.model.schema_registry import RegistrySnapshot, context_of
from offsite.model.untrusted.text import printable
from offsite.points.held_schemas import held_schemas
from offsite.repository.backup import Backup
from offsite.repository.restores.schema_ids import RestoredSchemaIds, get_schemas
from offsite.repository.state import BackupState
from offsite.restore.topics_with_ids import TopicWithIds, some_ids, topics_with_ids
from offsite.restore.write.plan import RestorePlan
from offsite.schemas.meaning import other_meanings
from offsite.schemas.read_registry import read_registry, with_ids
from offsite.schemas.register import IMPORT
from offsite.schemas.registry_client import RegistryAddress, RegistryClient

_NAMED_MAX = 5
_ELSEWHERE = "over another registry than the source's they mean something else, and a restore leaves them as they are"
_FREE = "its ids are free at the target, and its subjects have no other versions there"
_OTHERWISE = "if the registry does not keep the ids, they are rewritten instead"
_ASKED = (SchemaIdsChoice.KEEP, SchemaIdsChoice.REWRITE)
_SUBJECT_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIds:
    """The `topics` with ids. `registry`: the registry of the target that was compared, empty without one. `held`:
    number of ids whose schemas the backup has; `other`: those of them that mean something else there, or nothing.
    `way`: what the restore does about it, for the reason `why`. `decided_before`: an earlier run of this restore
    decided it. `by_new_keys`: topics whose records go by key to another number of partitions, where keys are
    rewritten, too. `merged`: ids that share one at the target, known once schemas are registered. `importing`: subjects
    of the backup that somebody else set to mode IMPORT there."""

    topics: tuple[TopicWithIds, ...] = ()
    registry: str = ""
    held: int = 0
    other: tuple[int, ...] = ()
    way: SchemaIdsWay = SchemaIdsWay.LEAVE
    why: str = ""
    decided_before: bool = False
    by_new_keys: tuple[str, ...] = ()
    merged: tuple[int, ...] = ()
    importing: tuple[str, ...] = ()

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
                f"{self.registry}, or nothing: {some_ids(self.other)}"
            )
        if self.way is SchemaIdsWay.LEAVE:
            yield from self._left_notes()
        else:
            yield from self._way_notes()
        if self.importing:
            yield (
                f"no producer can register schemas for {named(self.importing, most=_NAMED_MAX, of='subjects')} at "
                f"{self.registry}: somebody else set the mode {IMPORT}"
            )
        if alike := [topic for topic in self.topics if not topic.is_proven]:
            yield (
                f"records begin as those with schema ids do in {_listed(alike)}, and the backup has no schema under a "
                f"subject of the topic to prove it: if they are ids, {_ELSEWHERE}"
            )

    def _left_notes(self) -> Iterator[str]:
        if self.why:
            yield f"schema ids stay as they are: {self.why}"
        other = frozenset(self.other)
        proven = [topic for topic in self.topics if topic.is_proven and self._concerns(topic, other)]
        if proven:
            way = "" if self.registry else "; --registry URL compares them with the registry of the target"
            yield f"schema ids are in the records of {_listed(proven)}: {_ELSEWHERE}{way}"

    def _way_notes(self) -> Iterator[str]:
        before = ", as an earlier run of this restore decided" if self.decided_before else ""
        match self.way:
            case SchemaIdsWay.KEEP:
                yield f"schemas are registered under their ids{before}: {self.why}"
            case SchemaIdsWay.REWRITE:
                yield (
                    f"schemas are registered under other ids, and ids in keys and values are rewritten{before}: "
                    f"{self.why}; what no subject and schema prove to be an id stays as it is, and is counted"
                )
                if proven := [topic for topic in self.topics if topic.is_proven]:
                    yield f"schema ids are in the records of {_listed(proven)}, as far as the plan looked"
        if self.way is SchemaIdsWay.REWRITE and self.by_new_keys:
            yield (
                f"records of {named(self.by_new_keys, most=_NAMED_MAX, of='topics')} go to the partitions of their "
                "rewritten keys, as those of producers at the target will"
            )
        if self.merged:
            yield (
                f"{self.registry} has one schema for several of the backup, those of the ids {some_ids(self.merged)}: "
                "keys that differed in these ids alone are equal now, and compaction keeps one of them"
            )

    def _concerns(self, topic: TopicWithIds, other: frozenset[int]) -> bool:
        return not self.registry or not other.isdisjoint((*topic.keys, *topic.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRegistry:
    """The registry of the target, and the schemas of the backup, as the plan found them. `modes`: of subjects there,
    before earlier runs imported them."""

    address: RegistryAddress
    schemas: RegistrySnapshot
    modes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIdsRules:
    """What decides about schema ids: the `commit` that is restored, `choice` of a person, the `registry` of the target,
    if it is named, and what an earlier run of the same restore has `stored`. `is_other_cluster`: than that of the
    backup. `modes`: of the subjects there, before an earlier run of the same restore imported them."""

    backup: Backup
    commit: BackupState
    choice: SchemaIdsChoice
    registry: RegistryAddress | None
    is_other_cluster: bool
    stored: RestoredSchemaIds | None = None
    modes: Mapping[str, str] = field(default_factory=dict)

    def foresee(self, plan: RestorePlan) -> tuple[SchemaIds, PlannedRegistry | None]:
        """The ids in the records of `plan`, and what the restore does about them. Without a registry, nothing is said
        where ids keep their meaning: on the cluster of the backup, and where the topic of the registry is restored
        along.

        Raises `BadOption`, `SchemasRefused`, `DamagedObject` for schemas of the backup that a registry is to get, and
        the errors of `RegistryClient` and `read_registry`.
        """
        brings_topic = any(topic.source.holds_schemas for topic in plan.topics)
        self._check_words(brings_topic=brings_topic)
        if self.registry is None and (brings_topic or not self.is_other_cluster):
            return SchemaIds(), None
        held = self._schemas()
        seen = SchemaIds(topics=tuple(topics_with_ids(plan, held, self.backup.store)))
        if self.registry is None:
            return seen, None
        ids = {schema.id for schema in held.schemas if not schema.context}
        there = read_registry(RegistryClient(self.registry)) if ids else RegistrySnapshot()
        way, why = self._decide(held, there, brings_topic=brings_topic)
        compared = replace(
            seen,
            registry=RegistryClient(self.registry).place,
            held=len(ids),
            other=other_meanings(held, there),
            way=way,
            why=why,
            decided_before=self.stored is not None,
            importing=tuple(sorted({v.subject for v in held.versions} & _importing(there) - self._left_open(there))),
            by_new_keys=tuple(repartition.target for repartition in plan.repartitions),
        )
        return compared, PlannedRegistry(address=self.registry, schemas=held, modes=self.modes)

    def _check_words(self, *, brings_topic: bool) -> None:
        if self.choice not in _ASKED:
            return
        if self.registry is None:
            raise BadOption(
                f"--schema-ids {self.choice} works only with a registry of the target", hint="add --registry URL"
            )
        if brings_topic:
            raise BadOption(
                f"--schema-ids {self.choice} and the topic of the schema registry both bring schemas to the target",
                hint="leave the topic out (--exclude _schemas), or use --schema-ids leave",
            )

    def _schemas(self) -> RegistrySnapshot:
        if self.stored is not None and self.stored.schemas is not None:
            return get_schemas(self.backup.record_store, self.stored.schemas)
        if self.registry is None or self.choice is SchemaIdsChoice.LEAVE:
            return _held(self.backup, self.commit)
        return held_schemas(self.backup, self.commit)

    def _decide(
        self, held: RegistrySnapshot, there: RegistrySnapshot, *, brings_topic: bool
    ) -> tuple[SchemaIdsWay, str]:
        if self.stored is not None:
            return self.stored.way, self._check_stored(self.stored, held, there)
        if self.choice is SchemaIdsChoice.LEAVE:
            return SchemaIdsWay.LEAVE, "--schema-ids leave"
        wanted = {version.id for version in held.versions if not context_of(version.subject)}
        if not wanted and self.choice in _ASKED:
            raise SchemasRefused(
                f"the backup {self.backup.descriptor.name} holds no schemas of a registry to bring to the target",
                hint="a backup holds them with: offsite backup run --registry URL; or use --schema-ids leave",
            )
        if not wanted or brings_topic:
            return SchemaIdsWay.LEAVE, "the topic of the schema registry is restored along" if brings_topic else ""
        return self._choose(held, there, wanted)

    def _choose(
        self, held: RegistrySnapshot, there: RegistrySnapshot, wanted: Collection[int]
    ) -> tuple[SchemaIdsWay, str]:
        other = [schema_id for schema_id in other_meanings(held, there) if schema_id in wanted]
        left_open = self._left_open(there)
        obstacle = _obstacle(held, there, other) or _closed(held, there, left_open, other)
        if left_open and not obstacle and self.choice is not SchemaIdsChoice.REWRITE:
            return SchemaIdsWay.KEEP, f"an import of {amount(len(left_open), 'subject')} broke off there, and goes on"
        if not other:
            return SchemaIdsWay.SAME, "each id means the same at the target"
        if self.choice is SchemaIdsChoice.KEEP and obstacle:
            raise SchemasRefused(
                f"{RegistryClient(self._address).place} cannot take the schemas under their ids: {obstacle}",
                hint="use --schema-ids rewrite, or a registry without these subjects and ids",
            )
        if obstacle or self.choice is SchemaIdsChoice.REWRITE:
            return SchemaIdsWay.REWRITE, obstacle or "--schema-ids rewrite"
        return SchemaIdsWay.KEEP, _FREE if self.choice is SchemaIdsChoice.KEEP else f"{_FREE}; {_OTHERWISE}"

    def _left_open(self, there: RegistrySnapshot) -> frozenset[str]:
        """The subjects in mode IMPORT there that an earlier run of this restore opened."""
        return _importing(there) & {subject for subject, mode in self.modes.items() if mode != IMPORT}

    @property
    def _address(self) -> RegistryAddress:
        return self.registry or RegistryAddress(url="")

    def _check_stored(self, stored: RestoredSchemaIds, held: RegistrySnapshot, there: RegistrySnapshot) -> str:
        """Why the decision of an earlier run still holds. Raises `SchemasRefused` where it does not."""
        client = RegistryClient(self._address)
        changed = other_meanings(held, with_ids(client, there, stored.by_id.values()), stored.by_id)
        if changed:
            raise SchemasRefused(
                f"{client.place} gives {amount(len(changed), 'schema id')} another meaning than "
                f"when this restore began, or none: {some_ids([stored.by_id[schema_id] for schema_id in changed])}",
                hint="bring the registry back to what it was; or delete the target topics, and restore them anew",
            )
        return f"{amount(len(stored.ids), 'id')} found there, with the same meaning" if stored.ids else ""


def _obstacle(held: RegistrySnapshot, there: RegistrySnapshot, other: Sequence[int]) -> str:
    """Why schemas cannot be registered under their ids; empty if nothing speaks against it. What a begun import left
    there is no obstacle."""
    taken = [schema_id for schema_id in other if ("", schema_id) in there.by_id]
    if taken:
        return f"{amount(len(taken), 'id is', 'ids are')} taken there: {some_ids(taken)}"
    versions = {(version.subject, version.version): version.id for version in held.versions}
    subjects = {version.subject for version in held.versions}
    for version in there.versions:
        if version.subject in subjects and versions.get((version.subject, version.version)) != version.id:
            return f"subject {printable(version.subject)[:_SUBJECT_SHOWN]!r} exists there with other versions"
    return ""


def _closed(held: RegistrySnapshot, there: RegistrySnapshot, left_open: Collection[str], other: Sequence[int]) -> str:
    """A subject of the ids `other` that is in mode IMPORT there, and that this restore did not open: somebody else
    imports into it. Empty without one."""
    wanted = {version.subject for version in held.versions if version.id in frozenset(other)}
    for subject in sorted((wanted & _importing(there)).difference(left_open)):
        return f"subject {printable(subject)[:_SUBJECT_SHOWN]!r} is in mode {IMPORT} there, set by somebody else"
    return ""


def _importing(there: RegistrySnapshot) -> frozenset[str]:
    return frozenset(settings.subject for settings in there.settings if settings.mode == IMPORT)


def _held(backup: Backup, commit: BackupState) -> RegistrySnapshot:
    try:
        return held_schemas(backup, commit)
    except OffsiteError as error:
        warned("schemas_not_read", error=error.id, why=error.message)
        return RegistrySnapshot()


def _listed(topics: Sequence[TopicWithIds]) -> str:
    return named(list(map(str, topics)), most=_NAMED_MAX, of="topics")
