"""What the last expiry job of a resource kept, and why: a hint for people, overwritten, never trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.model.size import MIB
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.declared.hint import get_hint
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.store import Store

REASON_MAX = 1_000
_BYTES_MAX = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBackup:
    """An older backup that stays: its name, its repository, and why."""

    backup: str
    repository: str
    reason: str

    def __str__(self) -> str:
        return f"{self.backup}: {self.reason}"


def put_kept(store: Store, layout: DeclaredLayout, kept: Sequence[KeptBackup]) -> None:
    """Raises what the store raises."""
    lines = [
        {"backup": line.backup, "repository": line.repository, "reason": line.reason[:REASON_MAX]} for line in kept
    ]
    store.put_overwrite(layout.kept_key, encode_object({"format": FORMAT, "kept": lines}))


def get_kept(store: Store, layout: DeclaredLayout) -> tuple[KeptBackup, ...]:
    """Empty where nothing was kept, no job ended yet, or it cannot be read. Raises what the store raises."""
    return get_hint(store, layout.kept_key, _kept, bytes_max=_BYTES_MAX, uid=layout.uid) or ()


def _kept(item: JsonObject) -> tuple[KeptBackup, ...]:
    return tuple(
        KeptBackup(backup=line.text("backup"), repository=line.text("repository"), reason=line.text("reason"))
        for line in item.children("kept")
    )
