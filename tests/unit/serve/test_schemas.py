"""The schemas of the API: clients that were generated from them have classes of these names."""

from __future__ import annotations

from pathlib import Path

from offsite.backup.options import BackupWords
from offsite.model.options import declared_options
from offsite.serve.app import routes
from offsite.serve.v1.jobs import BackupRunBody
from offsite.serve.v1.restores import RestoreBody

NAMES = Path(__file__).parent / "schemas.txt"


def test_a_schema_keeps_its_name_and_a_new_one_is_written_down() -> None:
    assert sorted(routes().openapi()["components"]["schemas"]) == NAMES.read_text().split()


def test_a_body_has_its_own_fields_and_the_words_of_its_use_without_files() -> None:
    fields = set(BackupRunBody.model_fields)
    assert fields == {option.name for option in declared_options(BackupWords)}
    body = RestoreBody.model_validate({"confirmation": "c", "topics": ["orders"]})
    assert (body.target, body.confirmation, body.model_dump()["topics"]) == ("source", "c", ["orders"])
    assert "offsets_file" not in RestoreBody.model_fields
