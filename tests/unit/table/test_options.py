from __future__ import annotations

import pytest

from offsite.model.errors import BadOption
from offsite.table.options import read_options

PLACE = {"repo": "r", "backup": "b"}


def test_names_are_read_in_any_case() -> None:
    options = read_options({"REPO": "r", "backup": "b", "asof": "2h-ago", "STARTINGOFFSET": "5"})
    assert (options.repo, options.committed_at, options.starting_offset) == ("r", "2h-ago", 5)


def test_everything_visible_of_the_newest_commit_is_meant_unless_options_say_otherwise() -> None:
    options = read_options(PLACE)
    assert options.selection.include == ("*",)
    assert (options.commit, options.committed_at, options.at, options.checkpoint) == (None,) * 4
    assert options.read_committed
    assert options.with_commit
    assert not options.pushdown


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"repo": "r"}, "needs the option 'backup'"),
        ({"backup": "b"}, "needs the option 'repo'"),
        ({**PLACE, "topic": "orders"}, "no option 'topic'"),
        ({**PLACE, "commit": "1", "asOf": "2h-ago"}, "both name the restore point"),
        ({**PLACE, "checkpoint": "1", "at": "2h-ago"}, "both set the end"),
        ({**PLACE, "commit": "-1"}, "not a number"),
        ({**PLACE, "commit": "9" * 5000}, "not a number"),
        ({**PLACE, "startingCommit": "9" * 5000}, "startingCommit"),
        ({**PLACE, "isolation": "dirty"}, "isolation"),
        ({**PLACE, "withCommit": "perhaps"}, "withCommit"),
        ({**PLACE, "startingCommit": "0"}, "startingCommit"),
        ({**PLACE, "topics": "regex:["}, "regular expression"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        read_options(given)
