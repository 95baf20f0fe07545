"""The report of a drill, as it is kept with the backup: a document for scripts, and the same as a page for people."""

from __future__ import annotations

from collections.abc import Mapping

from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.json_object import JsonValue
from offsite.repository.layout import BackupLayout
from offsite.repository.segment_body import content_hash
from offsite.repository.store import Store


def put_drill_report(
    store: Store, layout: BackupLayout, drill: str, document: Mapping[str, JsonValue], page: str
) -> None:
    """Keep both, the page first: the document names its hash."""
    shown = page.encode()
    store.put_if_absent(layout.drill_key(drill, "html"), shown)
    fields = {**document, "format": FORMAT, "page_hash": content_hash(shown)}
    store.put_if_absent(layout.drill_key(drill, "json"), encode_object(fields))
