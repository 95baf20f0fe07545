from __future__ import annotations

import pytest

from bench.peers import Peer, read_peers, told
from bench.samples import Samples

FILE = """
[[peer]]
name = "other"
backup = "other {topic} {folder}"
"""


def test_a_file_names_tools_and_their_commands() -> None:
    assert read_peers(FILE) == [Peer(name="other", backup="other {topic} {folder}")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "peer = 1",
        "[[peer]]\nname = 'other'",
        FILE + FILE,
        FILE.replace("other", "offsite"),
        FILE + "speed = 1",
        "[",
    ],
)
def test_a_file_that_names_none_or_one_twice_is_refused(text: str) -> None:
    with pytest.raises(SystemExit):
        read_peers(text)


def test_ratios_are_those_within_the_rounds() -> None:
    samples = Samples()
    for offsite, other in ((1.0, 2.0), (10.0, 30.0), (1.0, 4.0)):
        samples.add(offsite_backup_s=offsite, other_backup_s=other)
    said = told("lz4", [Peer(name="offsite", backup=""), Peer(name="other", backup="")], samples)
    assert said.splitlines()[1:] == [
        "  backup   offsite                       1.0 s   1.00 x",
        "  backup   other                         4.0 s   3.00 x",
    ]
