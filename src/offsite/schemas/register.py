"""The schemas of a snapshot, registered at another registry: under the same ids where the registry keeps them, or under
its own, with the map from the ones to the others.

Neither a mode nor a status says that a registry keeps ids: Apicurio answers IMPORT, and gives ids of its own; Karapace
drops a given id. So every id that comes back is compared. Repeating a registration changes nothing. Only subjects of
the default context are registered. Nothing that the registry had before is deleted or set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import pairwise

from offsite.model.errors import BadRegistry, RegistryDenied
from offsite.model.journal import warned
from offsite.model.schema_registry import (
    AVRO,
    RegistrySnapshot,
    StoredSchema,
    SubjectVersion,
    context_of,
    is_id,
    is_subject,
)
from offsite.model.untrusted.json_object import JsonValue
from offsite.schemas.registry_client import RegistryAnswer, RegistryClient

IMPORT = "IMPORT"
_OPEN_MODES = frozenset({"", "READWRITE"})
"""Of a subject that an import may set. Somebody closed the others, or imports there."""
_SUBJECT_SHOWN = 100


OnVersion = Callable[[int], None]
"""Gets the number of versions that are registered, before each one."""


class IdsNotKept(Exception):
    """The registry gave another id than the one asked for, or takes none; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """`ids`: from ids of the snapshot to those of the registry. `versions`: likewise, by subject. `refused`: versions
    that the registry did not take, in sentences. For `finish`: `deleted` are versions of the registry that are
    registered only now, and deleted in the snapshot; `opened` are subjects in mode IMPORT, with their modes before."""

    ids: dict[int, int] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    deleted: list[tuple[str, int]] = field(default_factory=list)
    opened: dict[str, str] = field(default_factory=dict)

    @property
    def places(self) -> Iterator[tuple[str, int]]:
        """Subject and version of each, as the registry counts them."""
        return ((subject, number) for (subject, _), number in self.versions.items())


def register(
    client: RegistryClient, snapshot: RegistrySnapshot, *, on_version: OnVersion = lambda _done: None
) -> Registered:
    """Register every version under ids of the registry's own; subjects that it lacks get their compatibility first.
    Raises the errors of `client` and `on_version`, and `BadRegistry` for an answer of another form."""
    registered = Registered()
    _set_compatibility(client, snapshot)
    try:
        _register(client, snapshot, registered, on_version)
    except BaseException:
        finish(client, registered, RegistrySnapshot())
        raise
    return registered


def _register(
    client: RegistryClient, snapshot: RegistrySnapshot, registered: Registered, on_version: OnVersion
) -> None:
    for done, (version, schema) in enumerate(_in_order(snapshot)):
        on_version(done)
        body = _body(schema, registered)
        look_up = {"deleted": "true"} if version.is_deleted else {}
        place = had = _place(client, client.send("POST", "subjects", version.subject, query=look_up, body=body))
        before: frozenset[int] = frozenset()
        if place is None:
            before = _numbers(client, version.subject) if version.is_deleted else before
            answer = client.send("POST", "subjects", version.subject, "versions", body=body)
            if not answer.is_well:
                registered.refused.append(f"{_named(version)}: {answer.status}{answer.message}")
                continue
            place = _place(client, client.send("POST", "subjects", version.subject, body=body))
        if place is None:
            raise BadRegistry(f"the registry {client.place} does not show what it has just registered")
        registered.versions[version.subject, version.version] = place[1]
        if registered.ids.setdefault(version.id, place[0]) != place[0]:
            registered.refused.append(f"{_named(version)}: it has another id than its schema")
        there = version.subject, place[1]
        if version.is_deleted and had is None and place[1] not in before:
            registered.deleted.append(there)
        elif not version.is_deleted and there in registered.deleted:  # deleted, and registered again
            registered.deleted.remove(there)


def _numbers(client: RegistryClient, subject: str) -> frozenset[int]:
    """The versions of a subject, before one is registered: a registry may look up by other rules than it registers."""
    listed = client.get("subjects", subject, "versions", deleted="true").value
    return frozenset(filter(is_id, listed if isinstance(listed, list) else ()))


def read_modes(client: RegistryClient, snapshot: RegistrySnapshot) -> dict[str, str]:
    """The modes of the subjects that an import of `snapshot` may open, for `register_same_ids`; empty: none of its
    own. Raises the errors of `client`."""
    return {
        subject: _mode(client, subject) for subject in sorted({version.subject for version in _of_default(snapshot)})
    }


def register_same_ids(
    client: RegistryClient,
    snapshot: RegistrySnapshot,
    *,
    modes: Mapping[str, str],
    on_version: OnVersion = lambda _done: None,
) -> Registered:
    """Register every version under its id and number, in mode IMPORT, which stays until `finish`. `modes`: as
    `read_modes` had them before the first registration of this restore, whose process may have been killed: what is
    there under its id and number stays, and only subjects that this restore opened go on. Raises `IdsNotKept` at the
    first difference; what was registered until then stays, under ids of the registry's own. Raises the errors of
    `client` and `on_version`, too."""
    registered, now = Registered(), dict[str, str]()
    _set_compatibility(client, snapshot)
    try:
        for done, (version, schema) in enumerate(_in_order(snapshot)):
            on_version(done)
            subject, before = version.subject, modes.get(version.subject, "")
            if subject not in now:
                now[subject] = _mode(client, subject)
                registered.opened.update({subject: before} if now[subject] == IMPORT != before else {})
            is_new = not _has(client, version)
            if is_new:
                _open_for_import(client, subject, now[subject], registered)
                _import(client, version, schema, registered)
            if version.is_deleted and (is_new or now[subject] == IMPORT != before):  # only that import registered it
                registered.deleted.append((subject, version.version))
            registered.ids[version.id] = version.id
            registered.versions[subject, version.version] = version.version
    except BaseException:
        finish(client, registered, RegistrySnapshot())
        raise
    return registered


def finish(client: RegistryClient, registered: Registered, snapshot: RegistrySnapshot) -> None:
    """Delete again, softly, what was deleted: its id is explained all the same. And set the modes of imported subjects
    as they were at the source, else as they were before."""
    for subject, number in registered.deleted:
        why = _problem(client, "DELETE", "subjects", subject, "versions", str(number))
        if why:
            warned("schema_not_deleted", subject=subject, version=number, why=why)
    modes = {settings.subject: settings.mode for settings in snapshot.settings}
    for subject, before in sorted(registered.opened.items()):
        _set_mode(client, subject, modes.get(subject) or before)


def _set_mode(client: RegistryClient, subject: str, mode: str) -> None:
    """Without a mode, the subject gets that of all again; a registry may know no way to that."""
    if not mode and not _problem(client, "DELETE", "mode", subject, absent="no such request"):
        return
    why = _problem(client, "PUT", "mode", subject, body={"mode": mode or "READWRITE"}, absent="no such request")
    if why:
        warned("schema_mode_not_set", subject=subject, mode=mode, why=why)


def _problem(client: RegistryClient, method: str, *path: str, body: JsonValue = None, absent: str = "") -> str:
    """Why a request had no effect; empty if it had. `absent`: of one that the registry has nothing for. A refusal is
    told, and does not keep the others from being sent."""
    try:
        answer = client.send(method, *path, body=body)
    except (BadRegistry, RegistryDenied) as error:
        return error.message
    if answer.is_absent:
        return absent
    return "" if answer.is_well else f"{answer.status}{answer.message}"


def _set_compatibility(client: RegistryClient, snapshot: RegistrySnapshot) -> None:
    """A registry without this setting, or that denies it, goes without: it may refuse a version then, which is told."""
    for settings in snapshot.settings:
        subject = settings.subject
        if not settings.compatibility or not is_subject(subject) or context_of(subject):
            continue
        if client.get("subjects", subject, "versions", deleted="true").is_absent:
            with suppress(RegistryDenied):
                client.send("PUT", "config", subject, body={"compatibility": settings.compatibility})


def _mode(client: RegistryClient, subject: str) -> str:
    """The mode of the subject itself, empty without one."""
    answer = client.get("mode", subject)
    mode = answer.value.get("mode") if isinstance(answer.value, dict) else None
    return mode if isinstance(mode, str) else ""


def _open_for_import(client: RegistryClient, subject: str, before: str, registered: Registered) -> None:
    """Set the mode of a subject whose mode was `before`."""
    if subject in registered.opened:
        return
    if before not in _OPEN_MODES:
        raise IdsNotKept(f"subject {subject[:_SUBJECT_SHOWN]!r} has a mode of its own there, {before[:20]!r}")
    try:
        answer = client.send("PUT", "mode", subject, body={"mode": IMPORT})
    except RegistryDenied as error:
        raise IdsNotKept(f"this login may not set the mode {IMPORT} of {subject!r}") from error
    if answer.status == HTTPStatus.UNPROCESSABLE_ENTITY:  # the subject has versions: those of an import that broke off
        answer = client.send("PUT", "mode", subject, query={"force": "true"}, body={"mode": IMPORT})
    if not answer.is_well or not isinstance(answer.value, dict) or answer.value.get("mode") != IMPORT:
        raise IdsNotKept(f"the registry {client.place} has no mode {IMPORT} for {subject!r} ({answer.status})")
    registered.opened[subject] = before


def _has(client: RegistryClient, version: SubjectVersion) -> bool:
    """Whether the registry has the version. What it says is compared when it is read back."""
    answer = client.get("subjects", version.subject, "versions", str(version.version), deleted="true")
    place = _place(client, answer)
    if place is not None and place != (version.id, version.version):
        raise IdsNotKept(f"{_named(version)} exists already, with id {place[0]}")
    return place is not None


def _import(client: RegistryClient, version: SubjectVersion, schema: StoredSchema, registered: Registered) -> None:
    body = {**_body(schema, registered), "id": version.id, "version": version.version}
    answer = client.send("POST", "subjects", version.subject, "versions", body=body)
    if not answer.is_well:
        raise IdsNotKept(f"{_named(version)}: {answer.status}{answer.message}")
    shown = _place(client, client.get("subjects", version.subject, "versions", str(version.version)))
    if shown != (version.id, version.version):
        raise IdsNotKept(f"the registry {client.place} does not keep id {version.id} of {_named(version)}")


def _named(version: SubjectVersion) -> str:
    return f"version {version.version} of {version.subject[:_SUBJECT_SHOWN]!r}"


def _in_order(snapshot: RegistrySnapshot) -> Iterator[tuple[SubjectVersion, StoredSchema]]:
    """The versions of the default context, each behind those that its schema uses, else by subject and number."""
    versions = _of_default(snapshot)
    by_place = {(version.subject, version.version): version for version in versions}
    earlier = {_at(after): _at(before) for before, after in pairwise(versions) if before.subject == after.subject}

    def needed_by(place: tuple[str, int]) -> Iterator[tuple[str, int]]:
        used = snapshot.by_version[place].references if place in snapshot.by_version else ()
        yield from (earlier[place],) if place in earlier else ()
        yield from ((part.subject, part.version) for part in used)

    opened = set[tuple[str, int]]()  # a circle is cut where it was entered
    for version in versions:
        pending = [] if _at(version) in opened else [(_at(version), needed_by(_at(version)))]
        opened.add(_at(version))
        while pending:  # not by recursion: a chain of strangers may be long
            place, needed = pending[-1]
            other = next(needed, None)
            if other is None:
                pending.pop()
                if place in snapshot.by_version:
                    yield by_place[place], snapshot.by_version[place]
            elif other in by_place and other not in opened:
                opened.add(other)
                pending.append((other, needed_by(other)))


def _of_default(snapshot: RegistrySnapshot) -> list[SubjectVersion]:
    return [v for v in sorted(snapshot.versions) if is_subject(v.subject) and not context_of(v.subject)]


def _at(version: SubjectVersion) -> tuple[str, int]:
    return version.subject, version.version


def _body(schema: StoredSchema, registered: Registered) -> dict[str, JsonValue]:
    """A registration. References go to the versions as the registry counts them."""
    references: list[JsonValue] = [
        {
            "name": part.name,
            "subject": part.subject,
            "version": registered.versions.get((part.subject, part.version), part.version),
        }
        for part in schema.references
    ]
    more: dict[str, JsonValue] = json.loads(schema.more) if schema.more else {}
    kind: dict[str, JsonValue] = {} if schema.kind == AVRO else {"schemaType": schema.kind}
    return {"schema": schema.text, **kind, **({"references": references} if references else {}), **more}


def _place(client: RegistryClient, answer: RegistryAnswer) -> tuple[int, int] | None:
    """The id and the version in an answer; None where the registry has none."""
    if not answer.is_well:
        return None
    value = answer.value if isinstance(answer.value, dict) else {}
    schema_id, version = value.get("id"), value.get("version")
    if not is_id(schema_id) or not is_id(version):
        raise BadRegistry(f"the registry {client.place} shows a version without its id or number")
    return schema_id, version
