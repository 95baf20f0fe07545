from __future__ import annotations

from pathlib import Path

from tests.fuzz.bit_flips import BitFlip, every_bit, every_byte

FILES = {"a": b"\x00\xff", "b": b"\x10"}


def test_each_byte_is_flipped_once_and_each_bit_once() -> None:
    assert [(flip.key, flip.position) for flip in every_byte(FILES)] == [("a", 0), ("a", 1), ("b", 0)]
    assert len({flip.among(FILES)[flip.key] for flip in every_bit(FILES)}) == 8 * 3
    assert len(list(every_byte({"a": bytes(100)}, step=7))) == 15


def test_a_flip_in_a_folder_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"\x10")
    with BitFlip(key="b", position=0, bit=4).in_folder(tmp_path):
        assert (tmp_path / "b").read_bytes() == b"\x00"
    assert (tmp_path / "b").read_bytes() == b"\x10"
