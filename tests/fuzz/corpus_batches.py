"""Record batches of all codecs as targets: their CRC32C as it was, and made anew over what was changed."""

from __future__ import annotations

import struct
from functools import partial

from offsite.log.batch import scan, verify_crc
from offsite.log.codec import compress
from offsite.log.group_fold import GroupFold
from offsite.log.markers import parse_control_marker
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.log.records.record_arrow import ArrowColumns
from tests.archive_records import binary_header, odd_records
from tests.batches import make_batch, make_control_batch
from tests.fuzz.layers import BATCH, CRCS
from tests.fuzz.reading import Reading
from tests.fuzz.target import Files, Layer, Target, Trust

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_UNDER_CRC = 21
_SMALL = 1_000


def batch(codec: int, *, trust: Trust) -> Target:
    """One batch at a time: nothing vouches for the order of several but the hash of what holds them."""
    odd = [each for each in odd_records() if len(each.value or b"") < _SMALL and each.timestamp_type == 0]
    files = {
        "plain": make_batch(100, codec=codec),
        "odd": bytes(encode(odd[:5], codec=codec)),
        "binary-header": bytes(encode([binary_header(5)], codec=codec)),
    }
    return _of_batches(files, trust, donors=_bombs(codec) if trust is Trust.RENEWED else ())


def control(*, trust: Trust) -> Target:
    """Markers and commits of groups, whose records have a format of their own."""
    files = {"marker": make_control_batch(5, producer_id=7, committed=True), "groups": _group_batch()}
    return _of_batches(files, trust)


def _of_batches(files: dict[str, bytes], trust: Trust, donors: tuple[bytes, ...] = ()) -> Target:
    known = {each[_UNDER_CRC:] for each in files.values()}
    return Target(
        files=files,
        read=partial(read_batches, known=known),
        trust=trust,
        seal=lambda _files, key, data: {key: data},
        layers=(lambda _key, _data: _LAYERS) if trust is Trust.RENEWED else lambda _key, _data: (),
        donors=donors,
    )


def read_batches(files: Files, *, known: set[bytes]) -> Reading:
    """Scan, check, decode in both ways; `foreign` are batches of which the CRC32C says that they are right and which
    nobody made. Base offset, leader epoch and length are not under it: the hash of a segment is there for those."""
    found = Reading()
    foreign = []
    for data in files.values():
        with found.part():
            headers = scan(data)
            verify_crc(data, headers)
            fold = GroupFold()
            columns = ArrowColumns(topic="orders", partition=0)
            for header in headers:
                one = header.view(data)
                if bytes(one[_UNDER_CRC:]) not in known:
                    foreign.append(bytes(one[_UNDER_CRC:])[:20])
                with found.part():
                    decode(one, header)
                if header.is_control:
                    with found.part():
                        parse_control_marker(one, header)
                    continue
                with found.part():
                    columns.add_batch(one, header, commit=1)
                    columns.take()
            with found.part():
                fold.feed(data, headers)
                fold.table()
    found.data["foreign"] = foreign
    return found


def _group_batch() -> bytes:
    def text(value: str) -> bytes:
        return struct.pack(">h", len(value)) + value.encode()

    key = struct.pack(">h", 1) + text("group") + text("orders") + struct.pack(">i", 0)
    value = struct.pack(">hqi", 3, 42, 5) + text("meta") + struct.pack(">q", 1)
    flexible = struct.pack(">hqi", 4, 42, 5) + b"\x05meta" + struct.pack(">q", 1) + b"\0"
    rows = [Record(at, 1_700_000_000_000, 0, key, body, ()) for at, body in enumerate((value, flexible, None))]
    return bytes(encode(rows))


def _bombs(codec: int) -> tuple[bytes, ...]:
    """A body that grows a thousandfold, to be spliced in."""
    return (bytes(compress(codec, bytes(4 << 20)))[: 64 << 10],) if codec else ()


_LAYERS: tuple[Layer, ...] = (BATCH, BATCH, CRCS)
