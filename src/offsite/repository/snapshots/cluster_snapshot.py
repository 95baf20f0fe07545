"""A cluster's settings as one small object beside the commits, stored again only when they change.

The commit names the object's key and hash, and nobody can slip rules into a restore unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from offsite.model.cluster_settings import Acl, ClientQuota, ClusterSettings, QuotaEntity, ScramUser
from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.commit import SnapshotRef
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout
from offsite.repository.snapshots.named_object import get_named, put_named
from offsite.repository.state import BackupState
from offsite.stores.store import Store

T = TypeVar("T")


def put_cluster_snapshot(store: Store, base: BackupState, settings: ClusterSettings) -> SnapshotRef:
    """Store `settings` for the commit after `base`. If `base` has equal settings, its snapshot is returned."""
    key = partial(BackupLayout(backup=base.backup).metadata_key, base.seq + 1)
    return put_named(store, encode_settings(settings), recorded=base.metadata, key=key)


def get_cluster_snapshot(store: Store, ref: SnapshotRef) -> ClusterSettings:
    """The cluster settings in a snapshot. Raises `DamagedObject` if the snapshot is missing or differs from its hash,
    `FormatTooNew`."""
    return decode_settings(get_named(store, ref, damaged=_damaged), key=ref.key)


def encode_settings(settings: ClusterSettings) -> bytes:
    """The canonical bytes of `settings`: an unreadable part is null."""
    more: dict[str, JsonValue] = {"not_carried": list(settings.not_carried)} if settings.not_carried else {}
    return encode_object(
        {
            "format": FORMAT,
            "acls": _list(settings.acls, _acl_to_json),
            "quotas": _list(settings.quotas, _quota_to_json),
            "scram_users": _list(settings.scram_users, _user_to_json),
            **more,
        }
    )


def decode_settings(data: bytes, *, key: str) -> ClusterSettings:
    """The cluster settings in an object. Raises `DamagedObject`, `FormatTooNew`."""
    document = parse_json_object(data, source=key, damaged=_damaged)
    return ClusterSettings(
        acls=_part(document, "acls", _acl),
        quotas=_part(document, "quotas", _quota),
        scram_users=_part(document, "scram_users", _user),
        not_carried=document.texts("not_carried") if "not_carried" in document.fields else (),
    )


def _list(part: Sequence[T] | None, put: Callable[[T], JsonValue]) -> JsonValue:
    return None if part is None else [put(element) for element in part]


def _part(document: JsonObject, name: str, read: Callable[[JsonObject], T]) -> tuple[T, ...] | None:
    return None if document.fields.get(name) is None else tuple(map(read, document.children(name)))


def _acl_to_json(acl: Acl) -> JsonValue:
    return {
        "resource_type": acl.resource_type,
        "resource": acl.resource,
        "pattern": acl.pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission": acl.permission,
    }


def _acl(document: JsonObject) -> Acl:
    return Acl(
        resource_type=document.text("resource_type"),
        resource=document.text("resource"),
        pattern=document.text("pattern"),
        principal=document.text("principal"),
        host=document.text("host"),
        operation=document.text("operation"),
        permission=document.text("permission"),
    )


def _quota_to_json(quota: ClientQuota) -> JsonValue:
    return {"entity": dict(quota.entity.parts), "limits": dict(quota.limits)}


def _quota(document: JsonObject) -> ClientQuota:
    limits = document.child("limits")
    return ClientQuota(
        entity=QuotaEntity(parts=document.text_map("entity")),
        limits=tuple((name, limits.number(name)) for name in sorted(limits.fields)),
    )


def _user_to_json(user: ScramUser) -> JsonValue:
    return {"name": user.name, "mechanism": user.mechanism, "iterations": user.iterations}


def _user(document: JsonObject) -> ScramUser:
    return ScramUser(
        name=document.text("name"), mechanism=document.text("mechanism"), iterations=document.integer("iterations")
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="restore without it (--metadata none), or from another commit (--commit)")
