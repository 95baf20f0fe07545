"""What is backed up and where, from options and properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.errors import BadRepositoryUrl
from offsite.services.metastore.options import MetastoreWords, parse_location, parse_place

PROPERTIES = "bootstrap.servers=127.0.0.1:1\nksql.service.id=Shop_\n"


@pytest.mark.parametrize(
    ("more", "location", "enabled"),
    [
        ("", True, True),
        ("ksql.metastore.backup.location=/var/backups\n", False, True),
        ("ksql.enable.metastore.backup=true\n", True, True),
        ("ksql.enable.metastore.backup=false\n", True, False),
        ("ksql.metastore.backup.location=/x\nksql.enable.metastore.backup = FALSE\n", False, False),
    ],
)
def test_only_the_properties_that_say_so_switch_a_backup_off(
    tmp_path: Path, more: str, location: bool, enabled: bool
) -> None:
    (properties := tmp_path / "ksql-server.properties").write_text(PROPERTIES + more)
    words = MetastoreWords(topic=None, service_id=None, location=str(tmp_path) if location else None, properties=properties)
    place = parse_place(words)
    assert (place.is_enabled, place.topic) == (enabled, "_confluent-ksql-Shop__command_topic")


@pytest.mark.parametrize("bad", ["s3://bucket/ms", "https://host/ms", "s3:/bucket/ms", "$DIR/ms", '"/var/ms"'])
def test_a_location_is_a_folder_of_this_machine(tmp_path: Path, bad: str) -> None:
    (properties := tmp_path / "ksql-server.properties").write_text(f"ksql.metastore.backup.location={bad}\n")
    with pytest.raises(BadRepositoryUrl, match=r"^ksql\.metastore\.backup\.location: ") as caught:
        parse_location(None, properties)
    assert "this machine" in (caught.value.hint or "")
    with pytest.raises(BadRepositoryUrl, match=r"^--location: "):
        parse_location(bad, properties)
