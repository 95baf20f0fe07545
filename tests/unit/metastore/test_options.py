"""What is backed up and where, from options and properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.metastore.folder import MetastoreWords, Switch, parse_location, parse_place
from offsite.model.errors import BadOption, BadRepositoryUrl

ENABLED = ("ksql.enable.metastore.backup", "ksql.metastore.enable.backup")
PROPERTIES = "bootstrap.servers=127.0.0.1:1\nksql.service.id=Shop_\n"


def words(properties: Path | None, location: str | None = None, topic: str | None = None) -> MetastoreWords:
    return MetastoreWords(topic=topic, service_id=None, location=location, properties=properties)


@pytest.mark.parametrize(
    ("more", "switch"),
    [
        ("", Switch.UNSAID),
        ("ksql.metastore.backup.location=/var/backups\n", Switch.UNSAID),
        ("ksql.enable.metastore.backup=true\n", Switch.ON),
        ("ksql.metastore.enable.backup=true\n", Switch.ON),
        ("ksql.enable.metastore.backup=True\nksql.metastore.enable.backup= true\n", Switch.ON),
        ("ksql.enable.metastore.backup=false\n", Switch.OFF),
        ("ksql.metastore.enable.backup=false\n", Switch.OFF),
        ("ksql.metastore.backup.location=/x\nksql.enable.metastore.backup = FALSE\n", Switch.OFF),
    ],
)
@pytest.mark.parametrize("location", ["/var/lib/ms", None])
def test_properties_switch_a_backup_on_and_it_is_off_where_they_are_silent(
    tmp_path: Path, more: str, switch: Switch, location: str | None
) -> None:
    (properties := tmp_path / "ksql-server.properties").write_text(PROPERTIES + more)
    place = parse_place(words(properties, location))
    assert (place.switch, place.topic) == (switch, "_confluent-ksql-Shop__command_topic")


@pytest.mark.parametrize(
    ("more", "exit_code", "said"),
    [
        ("", 3, "does not say ksql.enable.metastore.backup=true"),
        ("ksql.metastore.enable.backup=false\n", 0, "switched off"),
    ],
)
def test_a_backup_that_is_off_touches_nothing_and_says_so(tmp_path: Path, more: str, exit_code: int, said: str) -> None:
    (properties := tmp_path / "ksql-server.properties").write_text(PROPERTIES + more)
    argv = ["metastore", "backup", "--properties", str(properties), "--location", str(tmp_path / "ms")]
    done = CliRunner().invoke(app, argv)
    assert (done.exit_code, said in done.stderr) == (exit_code, True), done.stderr
    assert not (tmp_path / "ms").exists()


def test_the_command_itself_is_the_wish_where_no_properties_are_named(tmp_path: Path) -> None:
    assert parse_place(words(None, str(tmp_path), "t")).switch is Switch.ON


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("ksql.enable.metastore.backup=true\nksql.metastore.enable.backup=false\n", ENABLED),
        ("ksql.enable.metastore.backup=\n", ENABLED[:1]),
        ("ksql.metastore.enable.backup=yes\n", ENABLED[1:]),
    ],
)
def test_two_spellings_that_contradict_each_other_are_refused_by_name(
    tmp_path: Path, more: str, named: tuple[str, ...]
) -> None:
    (properties := tmp_path / "ksql-server.properties").write_text(PROPERTIES + more)
    with pytest.raises(BadOption) as caught:
        parse_place(words(properties, str(tmp_path)))
    assert all(name in caught.value.message for name in (*named, str(properties)))


def test_without_a_location_there_is_one_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (properties := tmp_path / "ksql-server.properties").write_text(f"{PROPERTIES}ksql.metastore.backup.location=\n")
    default = tmp_path / "offsite" / "metastore"
    assert parse_location(None, None) == parse_location(None, properties) == default
    assert parse_place(words(None, topic="t")).location == default
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", _no_home)
    with pytest.raises(BadOption, match="no folder for the backup files"):
        parse_location(None, None)


def _no_home() -> Path:
    raise RuntimeError("no home")


@pytest.mark.parametrize("bad", ["s3://bucket/ms", "https://host/ms", "s3:/bucket/ms", "$DIR/ms", '"/var/ms"'])
def test_a_location_is_a_folder_of_this_machine(tmp_path: Path, bad: str) -> None:
    (properties := tmp_path / "ksql-server.properties").write_text(f"ksql.metastore.backup.location={bad}\n")
    with pytest.raises(BadRepositoryUrl, match=r"^ksql\.metastore\.backup\.location: ") as caught:
        parse_location(None, properties)
    assert "this machine" in (caught.value.hint or "")
    with pytest.raises(BadRepositoryUrl, match=r"^--location: "):
        parse_location(bad, properties)
