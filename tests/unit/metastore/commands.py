"""Commands as a hostile world may send them, and files made of them."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from offsite.log.records.record import CREATE_TIME, Record
from offsite.metastore.stored_command import Header

HEADER = Header(topic="_confluent-ksql-x_command_topic", cluster_id="c", topic_id="t", created_at_ms=1, created_by="0")

_names = st.text(st.sampled_from('ab:`"\\/ \n\ré€'), max_size=8)
_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | _names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=6,
)
_json = st.builds(
    lambda value, indent: json.dumps(value, indent=indent, ensure_ascii=False).encode(),
    _texts,
    st.sampled_from([None, 1]),
)
parts = (
    st.none() | st.binary(max_size=12) | st.sampled_from([b"", b":", b"\n", b'"a"', b'"a:b"', b"\xff", b'"a']) | _json
)
headers = st.lists(st.tuples(_names, st.none() | st.binary(max_size=5)), max_size=2).map(tuple)


@st.composite
def commands(draw: st.DrawFn) -> list[Record]:
    """A topic's commands: offsets rise, the rest is anything."""
    offset, found = -1, []
    for _ in range(draw(st.integers(0, 6))):
        offset += draw(st.integers(1, 3))
        time_ms = draw(st.integers(-1, 1 << 45))
        found.append(Record(offset, time_ms, CREATE_TIME, draw(parts), draw(parts), draw(headers)))
    return found


def command(number: int, *, offset: int | None = None) -> Record:
    """One as ksqlDB writes them."""
    key, value = f'"stream/`S{number}`/create"'.encode(), b'{"statement":"CREATE STREAM","version":18}'
    return Record(2 * number if offset is None else offset, 1_700_000_000_000 + number, CREATE_TIME, key, value)
