"""The sidecar of a segment: read as it was written, in blocks of any size, and as older ones wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.markers import Marker, Markers
from offsite.log.transactions import OpenTransaction
from offsite.model.errors import DamagedObject
from offsite.repository.json_form import encode_canonical
from offsite.repository.segments.index import (
    Frame,
    MarkerText,
    SegmentIndex,
    decode_index,
    decode_markers,
    encode_index,
    insert_markers,
)

KEY = "some.idx"
FRAMES = (Frame(first_offset=0, raw_position=0, stored_position=0, timestamp_max_ms=-1, raw_crc=7),)

integers = st.integers(-1, 2**63 - 1)
markers = st.lists(st.builds(Marker, integers, integers, st.integers(0, 9), st.booleans(), integers), max_size=20)


def packed(fields: dict[str, object]) -> bytes:
    return zstandard.ZstdCompressor().compress(json.dumps(fields).encode())


def blocks(text: bytes, size: int) -> Iterator[bytes]:
    return (text[start : start + size] for start in range(0, len(text), size))


def whole(found: list[Marker]) -> bytes:
    rows = [[m.offset, m.producer_id, m.producer_epoch, int(m.committed), m.first_offset] for m in found]
    return encode_canonical({"frames": [[1, 2]], "markers": rows, "segment": "k"})


@given(markers, st.integers(1, 60))
def test_markers_go_into_the_text_and_out_of_it_whatever_the_blocks(found: list[Marker], size: int) -> None:
    empty, text = whole([]), whole(found)
    assert bytes(insert_markers(empty, Markers(found))) == text
    for wanted in (True, False):
        taken = MarkerText(blocks(text, size))
        read = [marker for part in taken.markers(with_markers=wanted) for marker in part]
        assert (read, taken.rest) == (found if wanted else [], empty)


def test_an_index_is_read_as_it_was_written() -> None:
    found = Markers(Marker(offset, 7, 0, offset % 2 == 0, offset - 1) for offset in range(40_000))
    opened = (OpenTransaction(producer_id=9, first_offset=3, last_offset=5),)
    index = SegmentIndex(segment_key="k", frames=FRAMES, markers=found, open=opened)
    assert decode_index(encode_index(index), key=KEY) == index
    assert list(chain.from_iterable(decode_markers(encode_index(index), key=KEY))) == list(found)
    without = decode_index(encode_index(index), key=KEY, with_markers=False)
    assert (without.frames, without.open, len(without.markers)) == (FRAMES, opened, 0)


def test_an_older_index_does_not_tell_what_was_open() -> None:
    index = decode_index(encode_index(SegmentIndex(segment_key="k", frames=FRAMES)), key=KEY)
    assert index.open is None


def test_json_of_another_form_is_read_as_well() -> None:
    data = packed({"format": 1, "segment": "k", "frames": [[0, 0, 0, -1, 7]], "markers": [[4, 7, 0, 1, 2]]})
    found = Markers([Marker(4, 7, 0, True, 2)])
    assert decode_index(data, key=KEY).markers == found
    assert [marker for part in decode_markers(data, key=KEY) for marker in part] == list(found)


@pytest.mark.parametrize(
    "rows", ["[1,2,3,1]", "[1,2,3,1,2,3]", '["a",2,3,1,0]', "[1.5,2,3,1,0]", "[99999999999999999999,2,3,1,0]", "[1,2,3"]
)
def test_what_is_no_marker_is_damage(rows: str) -> None:
    plain = f'{{"format":1,"frames":[[0,0,0,-1,7]],"markers":[{rows}],"segment":"k"}}\n'.encode()
    with pytest.raises(DamagedObject):
        decode_index(zstandard.ZstdCompressor().compress(plain), key=KEY)


def test_a_cut_index_is_damage() -> None:
    found = Markers(Marker(offset, 7, 0, True, -1) for offset in range(1000))
    data = encode_index(SegmentIndex(segment_key="k", frames=FRAMES, markers=found))
    for size in (0, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(DamagedObject):
            decode_index(data[:size], key=KEY)
