from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.errors import BadOption, FolderCopied
from offsite.operator.core.files import read_json, write_json
from offsite.operator.folder.edits import apply, plan_removal
from offsite.operator.folder.moves import confirm_move, plan_move
from offsite.operator.folder.resources import ResourceRecords
from tests.unit.operator.folder.home import Home, opened_home, resource


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        found.put("shop.yaml", resource(agents={"replicas": 0}))
        operator = found.operator()
        operator.look()
        operator.look()
        yield found


def copied(home: Home) -> Home:
    other = home.root.with_name("copy")
    subprocess.run(["cp", "-a", str(home.root), str(other)], check=True)
    return replace(home, root=other)


def test_a_copy_of_a_folder_deletes_no_backup_of_the_folder(home: Home) -> None:
    copy = copied(home)
    (copy.root / "shop.yaml").unlink()

    for _ in range(3):
        with pytest.raises(FolderCopied):
            copy.operator().look()
        copy.pass_s(20)
    assert not home.record(home.operator(), "shop").is_deleted
    assert not [each for each in ResourceRecords(layout=copy.layout).all() if each.is_deleted]


def test_a_copy_is_neither_edited(home: Home) -> None:
    copy = copied(home)

    with pytest.raises(FolderCopied):
        apply(copy.layout, "kind: Backup", source="x.yaml")
    with pytest.raises(FolderCopied) as raised:
        plan_removal(copy.layout, ("Backup", "shop"), (), keeps_backups=False)
    assert f"rm -r {copy.layout.own}" in raised.value.hint
    assert "offsite operator moved" in raised.value.hint


def test_a_copy_without_what_is_the_operators_has_resources_of_its_own(home: Home) -> None:
    copy = copied(home)
    subprocess.run(["rm", "-r", str(copy.layout.own)], check=True)
    there = copy.operator()
    there.look()

    assert copy.record(there, "shop").uid != home.record(home.operator(), "shop").uid


def test_a_folder_that_is_moved_goes_on(home: Home) -> None:
    uid = home.record(home.operator(), "shop").uid
    there = replace(home, root=home.root.rename(home.root.with_name("elsewhere")))
    operator = there.operator()
    operator.look()

    assert there.record(operator, "shop").uid == uid


def test_a_copy_that_takes_the_place_of_a_folder_is_seen_by_a_running_operator(home: Home) -> None:
    operator, copy = home.operator(), copied(home)
    home.root.rename(home.root.with_name("former"))
    copy.root.rename(home.root)

    with pytest.raises(FolderCopied):
        operator.look()


def test_a_machine_that_begins_anew_may_number_its_devices_otherwise(home: Home) -> None:
    note = read_json(home.layout.home)
    assert note is not None
    write_json(home.layout.home, {**note.fields, "device": "1"})
    home.operator().look()

    after = read_json(home.layout.home)
    assert after is not None
    assert after.text("device") == note.text("device")


def test_a_move_to_another_file_system_is_confirmed_when_nothing_is_left_behind(home: Home) -> None:
    copy, uid = copied(home), home.record(home.operator(), "shop").uid
    with pytest.raises(BadOption, match="still in"):
        confirm_move(copy.layout)
    shutil.rmtree(home.root)

    assert confirm_move(copy.layout).before == str(home.root)
    operator = copy.operator()
    operator.look()
    assert copy.record(operator, "shop").uid == uid
    with pytest.raises(BadOption, match="nothing to confirm"):
        plan_move(copy.layout)


def test_a_folder_that_was_brought_back_to_where_it_was_is_confirmed(home: Home) -> None:
    copy, uid = copied(home), home.record(home.operator(), "shop").uid
    former = home.root.rename(home.root.with_name("former"))  # it keeps its inode, so that no other gets it
    subprocess.run(["cp", "-a", str(copy.root), str(home.root)], check=True)
    shutil.rmtree(former)
    with pytest.raises(FolderCopied, match="another directory than before") as raised:
        home.operator()
    assert "offsite operator moved" in raised.value.hint

    assert confirm_move(home.layout).before == str(home.root)
    operator = home.operator()
    operator.look()
    assert home.record(operator, "shop").uid == uid
    with pytest.raises(BadOption, match="still in"):
        confirm_move(copy.layout)


def test_a_folder_of_before_is_bound_to_where_it_is(home: Home) -> None:
    home.layout.home.unlink()
    home.operator().look()

    assert home.layout.home.exists()
