from __future__ import annotations

import pytest

from offsite.archives.trivadis.object_key import parse_key


@pytest.mark.parametrize("partition", ["1000000", "999999999"])
def test_a_partition_that_kafka_cannot_have_is_none_of_the_tools(partition: str) -> None:
    assert parse_key(f"orders/{partition}/orders-{partition}-0000000000000000000.avro") is None


def test_an_offset_that_kafka_cannot_have_is_none_of_the_tools() -> None:
    assert parse_key("orders/0/orders-0-9999999999999999999.avro") is None
    found = parse_key("orders/0/orders-0-0000000000000000007.avro")
    assert found is not None
    assert found.start == 7
