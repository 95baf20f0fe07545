from __future__ import annotations

import pytest

from offsite.archives.trivadis.object_records import parse_key
from offsite.model.errors import DamagedArchive


@pytest.mark.parametrize("partition", ["1000000", "999999999"])
def test_a_partition_that_kafka_cannot_have_is_damage(partition: str) -> None:
    with pytest.raises(DamagedArchive):
        parse_key(f"orders/{partition}/orders-{partition}-0000000000000000000.avro")


def test_an_offset_that_kafka_cannot_have_is_damage() -> None:
    with pytest.raises(DamagedArchive):
        parse_key("orders/0/orders-0-9999999999999999999.avro")
    found = parse_key("orders/0/orders-0-0000000000000000007.avro")
    assert found is not None
    assert found.start == 7
