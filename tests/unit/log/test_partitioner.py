from __future__ import annotations

import pytest

from offsite.log.records.record import murmur2, partition_for_key

# What `org.apache.kafka.common.utils.Utils.murmur2` of Kafka 4.1.1 answers, signed as in Java.
GOLDEN = {
    b"": 275646681,
    b"\xff": -311467685,
    b"\x80\xff": -80095470,
    b"\x01\x02\xfe": -279284319,
    b"\xff\xfe\xfd\xfc": 2136149935,
    "ключ-42".encode(): -1352945481,
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", GOLDEN)
def test_a_key_has_the_hash_that_java_gives_it(key: bytes) -> None:
    assert murmur2(key) == GOLDEN[key] & 0xFFFF_FFFF


def test_a_key_goes_where_a_producer_would_write_it() -> None:
    assert [partition_for_key(key, 100) for key in GOLDEN] == [((h & 0x7FFF_FFFF) % 100) for h in GOLDEN.values()]
