"""Restores that were begun here, as a killed process leaves them."""

from __future__ import annotations

from offsite.repository.local_memory import note_written
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord, encode_record, put_record
from offsite.repository.restores.topic_settings import SetAsideSettings, encode_aside, next_aside_key, put_aside
from offsite.stores.store import Store


def put_own_record(store: Store, layout: RestoreLayout, record: RestoreRecord) -> None:
    note_written(store, layout.record_key, encode_record(record))
    put_record(store, layout, record)


def put_own_aside(store: Store, layout: RestoreLayout, topics: tuple[SetAsideSettings, ...]) -> None:
    note_written(store, next_aside_key(store, layout), encode_aside(topics))
    put_aside(store, layout, topics)
