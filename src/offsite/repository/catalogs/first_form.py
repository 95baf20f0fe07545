"""Catalogs of versions before parts: all segments and the JSON of the state in one Parquet object. Read-only: new
catalogs have the current form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.catalogs.parquet_form import damaged_catalog, from_parquet
from offsite.repository.catalogs.partition_table import state_from_json
from offsite.repository.catalogs.segment_parts import CatalogPart, RowRange, StoredRows
from offsite.repository.catalogs.segment_rows import whole_rows
from offsite.repository.commit import PartitionId
from offsite.repository.commit_json import position_from_json
from offsite.repository.json_form import NEWEST_FORMAT, parse_part
from offsite.repository.layered_map import LayeredMap
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import BackupState

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_STATE = b"offsite.state"


def decode_state(data: bytes, *, key: str) -> BackupState:
    """Read the catalog object `key`, except for the history. Segments stay in columns until first use; an invalid row
    raises an error on use. Raises `DamagedObject`."""
    read = from_parquet(data, key)
    described = (read.schema.metadata or {}).get(_STATE, b"")
    table = whole_rows(read.replace_schema_metadata(None), key)
    document = parse_part(described, source=key, damaged=damaged_catalog, newest=NEWEST_FORMAT)
    positions = map(position_from_json, document.children("positions"))
    return replace(
        state_from_json(document),
        positions=LayeredMap({position.partition_id: position for position in positions}),
        segments=LayeredMap(_segment_lists(document, table)),
    )


def _segment_lists(document: JsonObject, table: pa.Table) -> dict[PartitionId, SegmentList]:
    lists: dict[PartitionId, SegmentList] = {}
    whole = CatalogPart.of(table)
    low = 0
    for part in document.children("partitions"):
        partition = PartitionId(
            topic=part.text("topic"), topic_id=part.text("topic_id"), partition=part.integer("partition")
        )
        high = low + part.count("rows")
        lists[partition] = SegmentList(stored=StoredRows([RowRange(whole, low, high)], end=part.integer("end")))
        low = high
    if low != table.num_rows:
        raise document.damaged(f"{table.num_rows} rows for {low} segments")
    return {partition: segments for partition, segments in lists.items() if segments}
