"""A whole schema registry as one value: every subject and version, the softly deleted ones too, and all settings.

No request tells everything on every registry: lists in pages lack ids on Apicurio and deleted versions on Karapace,
which also knows no pages. So subjects and their versions decide what there is, and a page only saves requests. A
version that is listed and not shown is named (`unread`).

A registry only grows, apart from deletions, so no moment has to stop it: whoever reads it after a record was written
finds the schema of the record, unless somebody deleted the schema for ever. `earlier`, the reading before, keeps such a
schema, because the id stays in the records.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadRegistry, RegistryUnavailable
from offsite.model.names import amount
from offsite.model.schema_registry import (
    AVRO,
    MAX_ID,
    RegistrySnapshot,
    SchemaReference,
    StoredSchema,
    SubjectSettings,
    SubjectVersion,
    context_of,
    is_subject,
)
from offsite.model.units import MIB
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.schemas.meaning import meaning_of
from offsite.schemas.registry_client import RegistryClient

T = TypeVar("T")
U = TypeVar("U")

READ_LIMIT_S = 900.0
CONNECTIONS = 8
"""At most: a registry of a cloud answers in 50 ms, and limits the requests of a client to some dozens a second."""
SUBJECTS_MAX = 100_000
VERSIONS_MAX = 200_000
TEXT_BYTES_MAX = 64 * MIB
"""All texts and names together: they become one object of a repository, which is read whole."""
NAME_CHARS_MAX = 4_096
_SUBJECTS_PAGE, _SCHEMAS_PAGE = 1_000, 100
_ROUND = 100
"""A list without pages that ends at a round number was cut off: Apicurio 3.0 lists 1,000 subjects, and no more."""
_UNREAD_MAX = 20
_AHEAD = 2 * CONNECTIONS
_REFERENCE_BYTES = 64
_SETTINGS = {"compatibilityLevel", "compatibility", "mode"}
_MORE_OF_SCHEMA = ("metadata", "ruleSet")
_LIMIT_HINT = "offsite takes no larger registry; without --registry the backup holds the records alone"


def read_registry(
    client: RegistryClient,
    *,
    earlier: RegistrySnapshot | None = None,
    clock: Clock | None = None,
    limit_s: float = READ_LIMIT_S,
) -> RegistrySnapshot:
    """Read everything, within `limit_s`. `earlier`: the reading of the same registry before. Raises the errors of
    `client`, and `BadRegistry` for a registry that is too large, contradicts itself, or gives an id of `earlier`
    another meaning."""
    reading = _Reading(client=client, clock=clock or SystemClock(), limit_s=limit_s)
    with _threads(client) as threads:
        reading.read(threads)
    return _with_gone(reading.snapshot(), earlier, client.place)


def read_versions(
    client: RegistryClient,
    places: Iterable[tuple[str, int]],
    *,
    clock: Clock | None = None,
    limit_s: float = READ_LIMIT_S,
) -> RegistrySnapshot:
    """The versions at `places` (subject and number) as the registry shows them, the softly deleted too, with their
    schemas. A version that is not shown is missing. Raises as `read_registry`."""
    reading = _Reading(client=client, clock=clock or SystemClock(), limit_s=limit_s)
    with _threads(client) as threads:
        reading.read_places(threads, sorted(places))
    return reading.snapshot()


def with_ids(client: RegistryClient, snapshot: RegistrySnapshot, ids: Iterable[int]) -> RegistrySnapshot:
    """`snapshot` with those of `ids`, in the default context, that it lacks, as consumers ask for them: a registry may
    explain the ids of a deleted subject, and show none of its versions (Apicurio). Raises as `read_registry`."""
    missing = sorted({schema_id for schema_id in ids if ("", schema_id) not in snapshot.by_id})
    if not missing:
        return snapshot
    reading = _Reading(client=client, clock=SystemClock(), limit_s=READ_LIMIT_S)
    with _threads(client) as threads:
        schemas = reading.read_ids(threads, missing)
    return replace(snapshot, schemas=tuple(sorted((*snapshot.schemas, *schemas))))


@contextmanager
def _threads(client: RegistryClient) -> Iterator[ThreadPoolExecutor]:
    """Threads that ask `client`, which an interrupt closes for good."""
    with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="registry") as threads:
        try:
            yield threads
        except KeyboardInterrupt:
            client.close()  # else the process would wait for a minute for what is under way
            raise


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What was read so far: `listed` versions by subject, with those that are deleted; what is `shown` by subject and
    version."""

    client: RegistryClient
    clock: Clock
    limit_s: float
    listed: dict[str, dict[int, bool]] = field(default_factory=dict)
    shown: dict[tuple[str, int], StoredSchema] = field(default_factory=dict)
    settings: list[SubjectSettings] = field(default_factory=list)
    doubts: set[str] = field(default_factory=set)
    text_bytes: int = 0
    versions: int = 0
    end_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.end_s = self.clock.monotonic_s() + self.limit_s

    def read(self, threads: ThreadPoolExecutor) -> None:
        asked = set[tuple[str, int]]()
        living = set(self._subjects(deleted=False))
        subjects = sorted({*living, *self._subjects(deleted=True)})
        for shown in self._pages():
            self._take(shown)
        self._each(threads, lambda subject: self._versions(subject, is_living=subject in living), subjects, self._list)
        missing = [place for place in self._places() if place not in self.shown]
        while missing:  # the second time: what was registered meanwhile, and used at once
            self._each(threads, self._version, missing, self._show)
            asked |= set(missing)
            missing = sorted(self._used() - self.shown.keys() - asked)
            for subject, version in missing:
                self.listed.setdefault(subject, {}).setdefault(version, False)
        self._each(threads, self._settings, ("", *subjects), self._set)

    def read_places(self, threads: ThreadPoolExecutor, places: Sequence[tuple[str, int]]) -> None:
        for subject, version in places:
            self.listed.setdefault(subject, {})[version] = False
        self._each(threads, self._version, places, self._show)

    def read_ids(self, threads: ThreadPoolExecutor, ids: Sequence[int]) -> list[StoredSchema]:
        schemas: list[StoredSchema] = []

        def take(_schema_id: int, schema: StoredSchema | None) -> None:
            if schema is not None:
                self._count(_size_of(schema))
                schemas.append(schema)

        self._each(threads, self._by_id, ids, take)
        return schemas

    def _by_id(self, schema_id: int) -> StoredSchema | None:
        answer = self.client.get("schemas", "ids", str(schema_id))
        if answer.is_absent:
            return None
        if not isinstance(answer.value, dict):
            raise self._wrong(f"shows id {schema_id} as no object")
        return self._schema({**answer.value, "subject": "", "version": 1, "id": schema_id}).schema

    def snapshot(self) -> RegistrySnapshot:
        schemas: dict[tuple[str, int], StoredSchema] = {}
        for (subject, version), schema in sorted(self.shown.items()):
            other = schemas.setdefault((schema.context, schema.id), schema)
            if other != schema:
                raise self._wrong(f"gives id {schema.id} two meanings, one as version {version} of {_named(subject)}")
        versions = [
            SubjectVersion(
                subject=subject,
                version=version,
                id=self.shown[subject, version].id,
                is_deleted=self.listed[subject][version],
            )
            for subject, version in self._places()
            if (subject, version) in self.shown
        ]
        return RegistrySnapshot(
            schemas=tuple(sorted(schemas.values())),
            versions=tuple(sorted(versions)),
            settings=tuple(self._own_settings()),
            unread=tuple(self._unread()),
        )

    def _own_settings(self) -> Iterator[SubjectSettings]:
        """The settings of all, and those of subjects that differ: registries show those of all for a subject that has
        none of its own."""
        of_all, *of_subjects = sorted(self.settings) or [SubjectSettings(subject="")]
        inherited = dict(_members(of_all))
        if of_all != (nothing := SubjectSettings(subject="")):
            yield of_all
        for settings in of_subjects:
            own = {name: value for name, value in _members(settings) if value != inherited[name]}
            if replace(nothing, **own) != replace(nothing, subject=settings.subject):
                yield replace(nothing, **own)

    def _places(self) -> list[tuple[str, int]]:
        return [(subject, version) for subject, versions in self.listed.items() for version in versions]

    def _used(self) -> set[tuple[str, int]]:
        used = (part for schema in self.shown.values() for part in schema.references)
        return {(part.subject, part.version) for part in used if is_subject(part.subject)}

    def _unread(self) -> Iterator[str]:
        hidden = [
            (subject, version) for subject, version in sorted(self._places()) if (subject, version) not in self.shown
        ]
        for subject, version in hidden[:_UNREAD_MAX]:
            yield f"version {version} of {_named(subject)} is listed or used, and not shown"
        yield from sorted(self.doubts)
        if len(hidden) > _UNREAD_MAX:
            yield f"{amount(len(hidden) - _UNREAD_MAX, 'further version')} likewise"

    # -- requests ------------------------------------------------------------------------------------------------------

    def _each(
        self, threads: ThreadPoolExecutor, ask: Callable[[T], U], subjects: Iterable[T], take: Callable[[T, U], None]
    ) -> None:
        """Ask for each of `subjects`, some at once, and `take` the answers in order: answers that nobody has counted
        must not pile up. The first error ends the reading."""
        waiting = deque[tuple[T, Future[U]]]()
        try:
            for subject in subjects:
                waiting.append((subject, threads.submit(self._in_time, ask, subject)))
                if len(waiting) == _AHEAD:
                    asked, answer = waiting.popleft()
                    take(asked, answer.result())
            for asked, answer in waiting:
                take(asked, answer.result())
        finally:
            for _, answer in waiting:
                answer.cancel()

    def _in_time(self, ask: Callable[[T], U], subject: T) -> U:
        if self.clock.monotonic_s() > self.end_s:
            raise RegistryUnavailable(
                f"the registry {self.client.place} was not read within {self.limit_s:g} s",
                hint="try again when it answers faster",
            )
        return ask(subject)

    def _subjects(self, *, deleted: bool) -> Iterator[str]:
        """Page by page, until a page brings nothing new: a registry may know no pages, or make them smaller."""
        query = {"deleted": "true"} if deleted else {}
        names: dict[str, None] = {}
        while True:
            page = self._in_time(self._listing, ("subjects", query | {"offset": len(names), "limit": _SUBJECTS_PAGE}))
            new = [name for name in page if isinstance(name, str) and name not in names]
            self._count(sum(map(len, new)))
            if len(page) != sum(isinstance(name, str) for name in page) or any(len(n) > NAME_CHARS_MAX for n in new):
                raise self._wrong("lists a subject that is no name")
            names |= dict.fromkeys(new)
            if not new:
                if page and len(names) % _ROUND == 0:
                    self.doubts.add(f"{len(names):,} subjects are listed, and no next page: there may be more")
                if any(not is_subject(name) for name in names):
                    self.doubts.add("a subject whose name no request can name is listed, and not read")
                return filter(is_subject, names)
            if len(names) > SUBJECTS_MAX:
                raise BadRegistry(
                    f"the registry {self.client.place} has more than {SUBJECTS_MAX:,} subjects", hint=_LIMIT_HINT
                )

    def _pages(self) -> Iterator[StoredSchemaAt]:
        """What the list of schemas shows with subject, version and id. Nothing is concluded from what it lacks."""
        count, places = 0, set[tuple[str, int]]()
        while count < VERSIONS_MAX:
            try:
                answer = self._in_time(
                    lambda offset: self.client.get("schemas", deleted="true", offset=offset, limit=_SCHEMAS_PAGE), count
                )
            except BadRegistry:  # a page of schemas is too long; each of them is asked for
                return
            page = answer.value if isinstance(answer.value, list) else []
            whole = [
                entry for entry in page if isinstance(entry, dict) and {"subject", "version", "id"} <= entry.keys()
            ]
            schemas = [schema for entry in whole if (schema := self._schema(entry)).place not in places]
            yield from schemas
            places |= {schema.place for schema in schemas}
            count += len(page)
            if not schemas:
                return

    def _versions(self, subject: str, *, is_living: bool) -> dict[int, bool]:
        """Whether each version of `subject` is deleted."""
        every = self._listing(("subjects", subject, "versions", {"deleted": "true"}))
        living = self._listing(("subjects", subject, "versions", {})) if is_living else []
        numbers = [*every, *living]
        if any(type(number) is not int or not 0 < number <= MAX_ID for number in numbers):
            raise self._wrong(f"lists a version of {_named(subject)} that is no number")
        self._check_number(len(every))
        living_numbers = set(living)
        return {number: number not in living_numbers for number in numbers if isinstance(number, int)}

    def _version(self, place: tuple[str, int]) -> StoredSchemaAt | None:
        subject, version = place
        answer = self.client.get("subjects", subject, "versions", str(version), deleted="true")
        if answer.is_absent:
            return None
        if not isinstance(answer.value, dict):
            raise self._wrong(f"shows version {version} of {_named(subject)} as no object")
        schema = self._schema(answer.value)
        if schema.place != place:
            raise self._wrong(f"shows another version for version {version} of {_named(subject)}")
        return schema

    def _settings(self, subject: str) -> SubjectSettings:
        """The settings of `subject` itself, or of all. A registry that tells those of all for a subject is believed: it
        is what counts there."""
        path = (subject,) if subject else ()
        config = self._object("config", *path)
        more = {name: value for name, value in config.items() if name not in _SETTINGS and value is not None}
        words = (config.get("compatibilityLevel"), config.get("compatibility"), self._object("mode", *path).get("mode"))
        if any(word is not None and not isinstance(word, str) for word in words):
            raise self._wrong(f"shows settings of {_named(subject) if subject else 'all subjects'} that are no words")
        level, compatibility, mode = (word if isinstance(word, str) else "" for word in words)
        return SubjectSettings(subject=subject, compatibility=level or compatibility, mode=mode, more=_text_of(more))

    def _object(self, *path: str) -> dict[str, JsonValue]:
        answer = self.client.get(*path)
        return dict(answer.value) if isinstance(answer.value, dict) else {}

    def _listing(self, request: tuple[str | dict[str, str | int], ...]) -> Sequence[JsonValue]:
        """The list at a path, whose last part is the query. Nothing there is an empty list."""
        *path, query = request
        answer = self.client.get(*map(str, path), **(query if isinstance(query, dict) else {}))
        if answer.is_absent:
            return []
        if not isinstance(answer.value, list):
            raise self._wrong(f"answers /{'/'.join(map(str, path))} with no list")
        return answer.value

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _take(self, shown: StoredSchemaAt) -> None:
        self._count(_size_of(shown.schema))
        self.shown[shown.place] = shown.schema

    def _show(self, _place: tuple[str, int], shown: StoredSchemaAt | None) -> None:
        if shown is not None:
            self._take(shown)

    def _list(self, subject: str, versions: dict[int, bool]) -> None:
        self.listed[subject] = versions
        self.versions += len(versions)
        self._check_number(self.versions)

    def _set(self, _subject: str, settings: SubjectSettings) -> None:
        self._count(sum(len(text) for _, text in _members(settings)))
        self.settings.append(settings)

    def _check_number(self, versions: int) -> None:
        if versions > VERSIONS_MAX:
            raise BadRegistry(
                f"the registry {self.client.place} has more than {VERSIONS_MAX:,} versions", hint=_LIMIT_HINT
            )

    def _count(self, size_bytes: int) -> None:
        self.text_bytes += size_bytes
        if self.text_bytes > TEXT_BYTES_MAX:
            raise BadRegistry(
                f"the schemas of the registry {self.client.place} are longer than {TEXT_BYTES_MAX // MIB} MiB",
                hint=_LIMIT_HINT,
            )

    def _schema(self, fields: dict[str, JsonValue]) -> StoredSchemaAt:
        document = JsonObject(fields=fields, damaged=lambda problem: self._wrong(f"shows a schema whose {problem}"))
        subject = document.text("subject")
        references = (
            SchemaReference(
                name=part.text("name"), subject=part.text("subject"), version=part.integer("version", most=MAX_ID)
            )
            for part in (document.children("references") if fields.get("references") is not None else ())
        )
        schema = StoredSchema(
            context=context_of(subject),
            id=document.integer("id", least=0, most=MAX_ID),
            kind=document.optional_text("schemaType") or AVRO,
            text=document.text("schema"),
            references=tuple(references),
            more=_text_of({name: fields[name] for name in _MORE_OF_SCHEMA if fields.get(name) is not None}),
        )
        return StoredSchemaAt(place=(subject, document.integer("version", least=1, most=MAX_ID)), schema=schema)

    def _wrong(self, what: str) -> BadRegistry:
        return BadRegistry(f"the registry {self.client.place} {what}", hint="is that the address of a schema registry?")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchemaAt:
    """A schema, and the subject and version that show it."""

    place: tuple[str, int]
    schema: StoredSchema


def _size_of(schema: StoredSchema) -> int:
    """Characters of its texts, names of what it uses included."""
    names = sum(len(part.name) + len(part.subject) + _REFERENCE_BYTES for part in schema.references)
    return len(schema.kind) + len(schema.text) + len(schema.more) + names


def _with_gone(snapshot: RegistrySnapshot, earlier: RegistrySnapshot | None, place: str) -> RegistrySnapshot:
    """`snapshot` with the schemas of `earlier` that the registry lacks by now."""
    gone = []
    for schema in earlier.schemas if earlier is not None else ():
        now = snapshot.by_id.get((schema.context, schema.id))
        if now is None:
            gone.append(replace(schema, is_gone=True))
        elif replace(schema, is_gone=False) != now and meaning_of(schema) != meaning_of(now):
            raise BadRegistry(
                f"the registry {place} gives id {schema.id} another meaning than an earlier commit found",
                hint="if another registry took its place, begin a backup of another name",
            )
    schemas = tuple(sorted((*snapshot.schemas, *gone)))
    if gone and sum(map(_size_of, schemas)) > TEXT_BYTES_MAX:
        raise BadRegistry(
            f"the schemas of the registry {place}, and those that it has no longer, are longer than "
            f"{TEXT_BYTES_MAX // MIB} MiB",
            hint="begin a backup of another name, which holds the present ones alone",
        )
    return replace(snapshot, schemas=schemas) if gone else snapshot


def _members(settings: SubjectSettings) -> Iterator[tuple[str, str]]:
    return ((member.name, getattr(settings, member.name)) for member in fields(settings))


def _text_of(members: Mapping[str, JsonValue]) -> str:
    return json.dumps(members, sort_keys=True, separators=(",", ":")) if members else ""


def _named(subject: str) -> str:
    return repr(subject[:100])
