"""The backups that the last expiry job of a resource kept, with reasons: a hint for people, overwritten, never
trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.model.units import MIB
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.declared.hint import get_hint
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.store import Store

REASON_MAX = 1_000
_BYTES_MAX = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBackup:
    """An older backup that stays: name, repository, and reason."""

    backup: str
    repository: str
    reason: str

    def __str__(self) -> str:
        return f"{self.backup}: {self.reason}"


def put_kept_backups(store: Store, layout: DeclaredLayout, backups: Sequence[KeptBackup]) -> None:
    """Overwrite the list. Raises the errors of the store."""
    lines = [
        {"backup": line.backup, "repository": line.repository, "reason": line.reason[:REASON_MAX]} for line in backups
    ]
    store.put_overwrite(layout.kept_key, encode_object({"format": FORMAT, "kept": lines}))


def get_kept_backups(store: Store, layout: DeclaredLayout) -> tuple[KeptBackup, ...]:
    """Return the list; empty if the last job kept nothing, no job ended yet, or the list cannot be read. Raises the
    errors of the store."""
    return get_hint(store, layout.kept_key, _kept, bytes_max=_BYTES_MAX, uid=layout.uid) or ()


def _kept(document: JsonObject) -> tuple[KeptBackup, ...]:
    return tuple(
        KeptBackup(backup=line.text("backup"), repository=line.text("repository"), reason=line.text("reason"))
        for line in document.children("kept")
    )
