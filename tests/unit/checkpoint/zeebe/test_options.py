"""What a person writes: where a cluster is, and who we are there. No secret comes back out."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.checkpoint.options import ZeebeWords, parse_zeebe, zeebe_participants
from offsite.checkpoint.zeebe.address import ZeebeAddress, parse_address, parse_authorizations
from offsite.cli.commands.checkpoint import TakeOptions
from offsite.model.errors import BadOption


@pytest.mark.parametrize(
    ("text", "name", "shown"),
    [
        ("http://zeebe:9601", "zeebe", "http://zeebe:9601"),
        ("http://zeebe", "zeebe", "http://zeebe:9600"),
        ("https://zeebe", "zeebe", "https://zeebe:443"),
        ("east=http://10.0.0.1:9600/", "east", "http://10.0.0.1:9600"),
        ("east=http://[::1]:9600", "east", "http://[::1]:9600"),
        ("http://proxy/zeebe/actuator", "zeebe", "http://proxy:9600/zeebe"),
    ],
)
def test_a_cluster_is_named_by_its_url(text: str, name: str, shown: str) -> None:
    address = parse_address(text)
    assert (address.name, str(address)) == (name, shown)


@pytest.mark.parametrize(
    "text",
    [
        "zeebe:9600",
        "ftp://zeebe",
        "http://",
        "http://zeebe:port",
        "http://zeebe:99999",
        "http://zeebe/?a=hunter2",
        "http://zeebe/#hunter2",
        "http://user:hunter2@zeebe",
        "http://ze be",
        "http://zeebe/a b",
        "http://zeebe/\r\nX: hunter2",
        "http://[::1",
        "=http://zeebe",
        "a/b=http://zeebe",
        "",
    ],
)
def test_what_names_none_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(BadOption) as error:
        parse_address(text)
    assert "hunter2" not in f"{error.value.message}{error.value.hint}"


def test_who_we_are_is_read_for_each_cluster_or_for_all() -> None:
    text = "# ours\n\nBearer abc\neast=Basic me:hunter2\n"
    assert parse_authorizations(text) == {"": "Bearer abc", "east": "Basic bWU6aHVudGVyMg=="}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "hunter2",
        "Basic hunter2",
        "Bearer hunter2 more",
        "Digest hunter2",
        "Bearer a\nBearer hunter2",
        "Bearer ä",
    ],
)
def test_a_file_that_does_not_say_it_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(BadOption) as error:
        parse_authorizations(text)
    assert "hunter2" not in f"{error.value.message}{error.value.hint}"


def words(folder: Path, text: str, *zeebe: str) -> ZeebeWords:
    (folder / "token").write_text(text)
    (folder / "token").chmod(0o600)
    return ZeebeWords(zeebe=list(zeebe), zeebe_token_file=str(folder / "token"))


def test_each_cluster_gets_its_own_secret_and_no_repr_shows_it(tmp_path: Path) -> None:
    given = words(tmp_path, "east=Bearer hunter2", "east=http://127.0.0.1:9600", "west=http://127.0.0.1:9700")
    east, west = parse_zeebe(given)
    assert (east.authorization, west.authorization) == ("Bearer hunter2", "")
    assert "hunter2" not in repr(east)


def test_a_file_for_nobody_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="works only with --zeebe"):
        parse_zeebe(words(tmp_path, "Bearer a"))
    with pytest.raises(BadOption, match="names north"):
        parse_zeebe(words(tmp_path, "north=Bearer a", "http://127.0.0.1"))
    with pytest.raises(BadOption, match="cannot be read"):
        parse_zeebe(ZeebeWords(zeebe=["http://127.0.0.1"], zeebe_token_file=str(tmp_path / "none")))
    (tmp_path / "token").write_bytes(b"\xff" * 100)
    with pytest.raises(BadOption, match=r"line 1: byte 1 \(0xff\) is not UTF-8"):
        parse_zeebe(ZeebeWords(zeebe=["http://127.0.0.1"], zeebe_token_file=str(tmp_path / "token")))


def test_a_file_of_secrets_that_everybody_can_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = words(tmp_path, "Bearer hunter2", "http://127.0.0.1:9600")
    for mode, is_told in ((0o600, False), (0o604, True)):
        (tmp_path / "token").chmod(mode)
        parse_zeebe(given)
        assert ("readable_by_others" in caplog.text) is is_told
    assert "hunter2" not in caplog.text


def test_a_secret_that_goes_out_in_clear_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    parse_zeebe(words(tmp_path, "Bearer hunter2", "https://zeebe", "at=http://127.0.0.1"))
    assert not caplog.records
    parse_zeebe(words(tmp_path, "Bearer hunter2", "http://zeebe"))
    assert ["zeebe_in_clear" in each.getMessage() for each in caplog.records] == [True]
    assert "hunter2" not in caplog.text


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(BadOption, match="same name"):
        zeebe_participants(parse_zeebe(ZeebeWords(zeebe=["http://a", "http://b"])), lambda: None)  # type: ignore[arg-type,return-value]


def test_without_clusters_nobody_takes_part() -> None:
    assert not zeebe_participants(parse_zeebe(ZeebeWords()), lambda: None)  # type: ignore[arg-type,return-value]


def test_the_process_in_the_background_gets_the_same_options_and_no_secret(tmp_path: Path) -> None:
    given = words(tmp_path, "Bearer hunter2", "east=http://a", "west=http://b")
    arguments = TakeOptions(repo="R", backup="B", clusters=given).arguments(7)
    assert [arguments[at + 1] for at, each in enumerate(arguments) if each == "--zeebe"] == [
        "east=http://a",
        "west=http://b",
    ]
    assert arguments[arguments.index("--zeebe-token-file") + 1] == str(tmp_path / "token")
    assert "hunter2" not in " ".join(arguments)


def test_an_address_is_a_value() -> None:
    assert parse_address("http://a") == ZeebeAddress(name="zeebe", is_tls=False, host="a", port=9600)
