from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsite.model.errors import BadOption, BadResource
from offsite.operator.folder.declarations import read_declared
from offsite.operator.resources.parse import load_documents

GOOD = "apiVersion: offsite.dev/v1alpha1\nkind: Backup\nmetadata: {name: %s}\n"


def test_a_file_may_hold_several_resources(tmp_path: Path) -> None:
    (tmp_path / "all.yml").write_text(f"{GOOD % 'one'}---\n{GOOD % 'two'}")
    found = read_declared(tmp_path)

    assert [each.key for each in found.documents] == [("Backup", "one"), ("Backup", "two")]
    assert not found.unclear


@pytest.mark.parametrize("name", ["backup-one.status.yaml", "accounts.yaml", ".hidden.yaml", "one.yaml.swp", "x.json"])
def test_what_declares_nothing_is_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(GOOD % "one")

    assert read_declared(tmp_path).documents == ()


@pytest.mark.parametrize(
    "text", ["", "---\n", "{", "kind: [", "just words", "\x00", "kind: Backup\nmetadata: {name: A_B}"]
)
def test_a_file_that_cannot_be_read_is_told_apart_from_one_that_declares_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.yaml").write_text(text)
    found = read_declared(tmp_path)

    assert found.documents == ()
    assert list(found.unclear) == ["one.yaml"]


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_bytes(b"\xff\xfe\x00")

    assert "UTF-16" in read_declared(tmp_path).unclear["one.yaml"]


def test_of_a_resource_with_a_wrong_field_the_name_is_known(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(f"{GOOD % 'one'}spec: {{tags: x}}\n")
    (document,) = read_declared(tmp_path).documents

    assert document.key == ("Backup", "one")
    assert "did you mean tag?" in document.problem


def test_a_name_that_comes_twice_is_an_error() -> None:
    with pytest.raises(BadResource, match="'state' comes twice in line 1"):
        load_documents("{state: running, state: stopped}", source="one.yaml")


def test_times_stay_as_they_are_written() -> None:
    assert load_documents("timestamp: 2026-11-24T10:00:00Z", source="x") == [{"timestamp": "2026-11-24T10:00:00Z"}]


def test_yaml_makes_no_objects() -> None:
    with pytest.raises(BadResource):
        load_documents("!!python/object/apply:os.getcwd []", source="x")


def test_a_folder_that_there_is_not_declares_nothing_away(tmp_path: Path) -> None:
    with pytest.raises(BadOption):
        read_declared(tmp_path / "nothing")


def test_a_link_that_leads_nowhere_and_a_pipe_are_told(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.yaml")

    assert list(read_declared(tmp_path).unclear) == ["link.yaml", "pipe.yaml"]


def test_more_than_fits_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "one.yaml").open("wb") as file:
        file.truncate(1 << 40)

    assert "larger than 256 KiB" in read_declared(tmp_path).unclear["one.yaml"]
