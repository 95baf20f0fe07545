"""The records in Avro's blocks: of our schema, of the plain one, and of others that resolve to ours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from offsite.archives.avro.container import Block
from offsite.archives.avro.foreign_decoding import ForeignDecoding
from offsite.archives.avro.own_decoding import OwnDecoding
from offsite.archives.avro.schema import PLAIN_SCHEMA, SCHEMA
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.model.untrusted.bounded_json import parse_json

__all__ = ["BadRecords", "BlockDecoding", "block_decoding", "decode_block"]

MAX_BLOCK_RECORDS = 1_000_000
"""Some 300 MiB when they are small; others end a block at some 64 KiB."""


class BadRecords(ValueError):
    """The bytes hold no records of this schema, or others than they should."""


class BlockDecoding(Protocol):
    """Of blocks with records of one partition, written with one schema."""

    def decode(self, block: Buffer, records: int) -> Sequence[Record]:
        """All `records` of a plain block. Raises `ValueError` if it does not hold exactly these."""


def block_decoding(written: bytes, of: TopicPartition, *, must_be_known: bool) -> BlockDecoding:
    """For records that were written with this schema (JSON). Raises `BadRecords` for a schema that does not fit.

    `must_be_known`: no other than those that offsite writes; in a damaged file a flipped field name might resolve.
    """
    try:
        schema = parse_json(written)
        if schema in (SCHEMA, PLAIN_SCHEMA):
            return OwnDecoding(of, is_plain=schema == PLAIN_SCHEMA)
        if not must_be_known:
            return ForeignDecoding(of, schema)
    except ValueError as error:
        raise BadRecords(f"its schema cannot be read: {error}") from error
    raise BadRecords("its schema is not one that offsite writes")


def decode_block(block: Block, decoding: BlockDecoding) -> Sequence[Record]:
    """The records of a block, in rising order of offsets. Raises `BadRecords`."""
    if block.records > MAX_BLOCK_RECORDS:
        raise BadRecords(f"a block of {block.records} records, at most {MAX_BLOCK_RECORDS} are read")
    if block.records > len(block.data):
        raise BadRecords(f"{block.records} records in {len(block.data)} bytes")
    try:
        records = decoding.decode(block.data, block.records)
    except ValueError as error:
        raise BadRecords(str(error)) from error
    if any(after.offset <= before.offset for before, after in pairwise(records)):
        raise BadRecords("offsets do not rise")
    return records
