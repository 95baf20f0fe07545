"""Files that people write: a byte order mark and Windows' breaks are read, what is not UTF-8 is shown by its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.engine.settings import settings_of
from offsite.generations.request import read_properties
from offsite.kafka.cluster import read_client_properties
from offsite.kafka.config import TokenSource
from offsite.kafka.net.sasl import read_token
from offsite.metastore.folder import parse_location
from offsite.model.errors import OffsiteError
from offsite.model.untrusted.text import NotUtf8, decode_text
from offsite.operator.core.files import read_text
from offsite.restore.options import parse_point
from offsite.serve.tokens import read_tokens

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a=1\nb=stra\xdfe\n", r"line 2: byte 7 \(0xdf\) is not UTF-8: save the file as UTF-8"),
        (MARK + b"\xe4", r"line 1: byte 1 \(0xe4\)"),
        (b"a\r\nb\r\n\xfc", r"line 3: byte 1 \(0xfc\)"),
        ("a=1".encode("utf-16"), "it is UTF-16"),
    ],
)
def test_the_place_of_what_is_no_text_is_told(data: bytes, said: str) -> None:
    with pytest.raises(NotUtf8, match=said):
        decode_text(data)


def test_text_is_read_with_and_without_a_mark() -> None:
    assert decode_text(MARK + "ä\r\n".encode()) == decode_text("ä\r\n".encode()) == "ä\r\n"


def _token(path: Path) -> str:
    return read_token(TokenSource(file=str(path)))


READERS: dict[str, tuple[str, Callable[[Path], object], object]] = {
    "--kafka-config": (
        "bootstrap.servers=a:9092\n# ä\n",
        lambda path: [str(each) for each in read_client_properties(path).config.bootstrap],
        ["a:9092"],
    ),
    "--spark-properties": ("spark.a=1\n", lambda path: dict(settings_of(path, ())), {"spark.a": "1"}),
    "properties of ksqlDB": (
        "ksql.metastore.backup.location=/x\n",
        lambda path: parse_location(None, path),
        Path("/x"),
    ),
    "properties of a connector": ("name=set\n", lambda path: read_properties(path).name, "set"),
    "--offsets-file": ("orders,0,5\n", lambda path: list(parse_point({"offsets_file": path}).ends.values()), [5]),
    "a token": ("tok\n", _token, "tok"),
    "a resource": ("kind: Backup\n", lambda path: read_text(path).strip(), "kind: Backup"),
}


@pytest.mark.parametrize("place", READERS)
def test_a_file_of_an_editor_of_windows_is_read(tmp_path: Path, place: str) -> None:
    text, read, value = READERS[place]
    for data in (text.encode(), MARK + text.encode(), MARK + text.replace("\n", "\r\n").encode()):
        (tmp_path / "file").write_bytes(data)
        assert read(tmp_path / "file") == value


@pytest.mark.parametrize("place", [place for place in READERS if place != "a token"])
def test_a_file_in_another_encoding_is_refused_with_the_place(tmp_path: Path, place: str) -> None:
    text, read, _ = READERS[place]
    (tmp_path / "file").write_bytes(text.encode() + "# straße\n".encode("latin-1"))
    line = text.count("\n") + 1

    with pytest.raises(OffsiteError, match=rf"line {line}: byte 7 \(0xdf\) is not UTF-8"):
        read(tmp_path / "file")


def test_a_token_in_another_encoding_is_refused_without_a_byte_of_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("straße".encode("latin-1"))

    with pytest.raises(OffsiteError, match="is not UTF-8 text") as caught:
        _token(tmp_path / "file")
    assert "df" not in caught.value.message.replace(str(tmp_path), "")


def test_a_token_file_with_a_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_bytes(MARK + b"# none\n")
    (tmp_path / "tokens").chmod(0o600)
    with pytest.raises(OffsiteError, match="contains no token"):
        read_tokens(tmp_path / "tokens")
