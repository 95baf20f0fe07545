"""The report of a drill, as it is kept with the backup: a document for scripts, and the same as a page for people."""

from __future__ import annotations

import json
from collections.abc import Mapping

from offsite.model.untrusted.digest import with_digest
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.json_form import FORMAT
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.body import content_hash
from offsite.stores.store import Store


def put_drill_report(
    store: Store, layout: BackupLayout, drill: str, document: Mapping[str, JsonValue], page: str
) -> dict[str, bytes]:
    """Keep both, the page first: the document names its hash. Returns what is kept, by suffix."""
    shown = page.encode()
    fields = {**document, "format": FORMAT, "page_hash": content_hash(shown)}
    kept = {"html": shown, "json": with_digest((json.dumps(fields, indent=2) + "\n").encode("ascii"))}
    for suffix, data in kept.items():
        store.put_if_absent(layout.drill_key(drill, suffix), data)
    return kept
