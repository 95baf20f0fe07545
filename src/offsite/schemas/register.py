"""The schemas of a snapshot, registered at another registry: under the same ids where the registry keeps them, or under
its own, with the map from the ones to the others.

Neither a mode nor a status says that a registry keeps ids: Apicurio answers IMPORT, and gives ids of its own; Karapace
drops a given id. So every id that comes back is compared. Repeating a registration changes nothing. Only subjects of
the default context are registered. Nothing that the registry had before is deleted or set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from offsite.model.errors import BadRegistry
from offsite.model.schema_registry import AVRO, RegistrySnapshot, StoredSchema, SubjectVersion, context_of
from offsite.model.untrusted.json_object import JsonValue
from offsite.schemas.registry_client import RegistryAnswer, RegistryClient

IMPORT = "IMPORT"


class IdsNotKept(Exception):
    """The registry gave another id than the one asked for, or takes none; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """`ids`: from ids of the snapshot to those of the registry. `versions`: likewise, by subject. `refused`: versions
    that the registry did not take, in sentences."""

    ids: dict[int, int] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


def register(client: RegistryClient, snapshot: RegistrySnapshot) -> Registered:
    """Register every version under ids of the registry's own. Raises the errors of `client`, and `BadRegistry` for an
    answer of another form."""
    registered, refused = Registered(), list[str]()
    for version, schema in _in_order(snapshot):
        body = _body(schema, registered)
        look_up = {"deleted": "true"} if version.is_deleted else {}
        place = had = _place(client, client.send("POST", "subjects", version.subject, query=look_up, body=body))
        if place is None:
            answer = client.send("POST", "subjects", version.subject, "versions", body=body)
            if not answer.is_well:
                refused.append(f"version {version.version} of {version.subject!r}: {answer.status}{answer.message}")
                continue
            place = _place(client, client.send("POST", "subjects", version.subject, body=body))
        if place is None:
            raise BadRegistry(f"the registry {client.place} does not show what it has just registered")
        registered.versions[version.subject, version.version] = place[1]
        if registered.ids.setdefault(version.id, place[0]) != place[0]:
            refused.append(f"version {version.version} of {version.subject!r}: it has another id than its schema")
        if version.is_deleted and had is None:
            client.send("DELETE", "subjects", version.subject, "versions", str(place[1]))
    return Registered(ids=registered.ids, versions=registered.versions, refused=tuple(refused))


def register_same_ids(client: RegistryClient, snapshot: RegistrySnapshot) -> Registered:
    """Register every version under its id and number, in subjects that the registry lacks, and set the modes of these
    subjects as they were. Raises `IdsNotKept` at the first difference; what was registered until then stays, under ids
    of the registry's own. Raises the errors of `client`, too."""
    modes = {settings.subject: settings.mode for settings in snapshot.settings}
    subjects = {version.subject for version, _ in _in_order(snapshot)}
    for subject in sorted(subjects):
        if not client.get("subjects", subject, "versions", deleted="true").is_absent:
            raise IdsNotKept(f"{subject!r} exists already")
        _check_mode(client, subject)
    registered = Registered()
    try:
        for version, schema in _in_order(snapshot):
            _import(client, version, schema, registered)
            registered.ids[version.id] = version.id
    finally:
        for subject in sorted(subjects):
            client.send("PUT", "mode", subject, body={"mode": modes.get(subject) or "READWRITE"})
    return registered


def _check_mode(client: RegistryClient, subject: str) -> None:
    answer = client.send("PUT", "mode", subject, body={"mode": IMPORT})
    if not answer.is_well or not isinstance(answer.value, dict) or answer.value.get("mode") != IMPORT:
        raise IdsNotKept(f"the registry {client.place} has no mode {IMPORT} ({answer.status})")


def _import(client: RegistryClient, version: SubjectVersion, schema: StoredSchema, registered: Registered) -> None:
    body = {**_body(schema, registered), "id": version.id, "version": version.version}
    answer = client.send("POST", "subjects", version.subject, "versions", body=body)
    if not answer.is_well:
        raise IdsNotKept(f"version {version.version} of {version.subject!r}: {answer.status}{answer.message}")
    shown = _place(client, client.get("subjects", version.subject, "versions", str(version.version)))
    if shown != (version.id, version.version):
        raise IdsNotKept(
            f"the registry {client.place} has no id {version.id} for version {version.version} of {version.subject!r}"
        )
    registered.versions[version.subject, version.version] = version.version
    if version.is_deleted:
        client.send("DELETE", "subjects", version.subject, "versions", str(version.version))


def _in_order(snapshot: RegistrySnapshot) -> Iterator[tuple[SubjectVersion, StoredSchema]]:
    """The versions of the default context, each behind those that its schema uses, else by subject and number."""
    by_place = {(version.subject, version.version): version for version in snapshot.versions}
    done = set[tuple[str, int]]()
    for version in sorted(snapshot.versions):
        pending = [(version.subject, version.version)]
        while pending:
            place = pending[-1]
            schema = snapshot.by_version.get(place)
            if place in done or schema is None or context_of(place[0]):
                pending.pop()
                continue
            earlier = [(place[0], number) for name, number in by_place if name == place[0] and number < place[1]]
            used = [(part.subject, part.version) for part in schema.references]
            waiting = [other for other in (*earlier, *used) if other in by_place and other not in {*done, *pending}]
            if waiting:
                pending.append(waiting[0])
                continue
            pending.pop()
            done.add(place)
            yield by_place[place], schema


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
    if type(schema_id) is not int or type(version) is not int:
        raise BadRegistry(f"the registry {client.place} shows a version without its id or number")
    return schema_id, version
