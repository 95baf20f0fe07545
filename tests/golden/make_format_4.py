"""How `format-4` was made, once: `python -m tests.golden.make_format_4 FOLDER`. It never changes once released.

A backup with a schema registry: two readings, a deleted version, a schema that is gone, catalogs with all of that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest import mock

from offsite.repository import catalog
from tests.fake_cluster.site import Site, open_site
from tests.schema_registry import SchemaRegistryServer, serving

FIELDS = [{"name": "price", "type": "long"}]
FIRST = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})
SECOND = json.dumps({"type": "record", "name": "Order", "fields": [*FIELDS, {"name": "count", "type": "long"}]})
VALUES = [b"\0\0\0\0\x01\x02", b"\0\0\0\0\x03\x02\x04"]
"""What `orders` holds: a price of 1, and a price of 1 with a count of 2."""


def make(site: Site) -> None:
    site.source.make_topic("orders")
    with mock.patch.object(catalog, "COMMITS_PER_CATALOG", 1), serving(SchemaRegistryServer()) as registry:
        registry.register("orders-value", FIRST)
        registry.register("notes-value", json.dumps({"type": "object"}), schemaType="JSON")
        site.source.write("orders", VALUES[:1])
        site.back_up("*", registry=registry.url)
        registry.answer("DELETE", "/subjects/orders-value/versions/1", {})
        registry.register("orders-value", SECOND)
        registry.answer("DELETE", "/subjects/notes-value?permanent=true", {})
        site.source.write("orders", VALUES[1:])
        site.back_up("*", registry=registry.url)


if __name__ == "__main__":
    with open_site(Path(sys.argv[1])) as made:
        make(made)
