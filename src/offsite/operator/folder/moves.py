"""Detects a copied `.offsite` directory. A copy of a folder has the records of the folder, including the uids:
resources removed from the copy would be deleted from the repositories.

A directory keeps device and inode in a move, and gets others in a copy. Device numbers change with a reboot, so the
same path with the same inode is the same directory as well. A move to another file system is a copy and a removal: it
must be confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from offsite.model.errors import BadOption, FolderCopied
from offsite.model.ids import random_uuid
from offsite.operator.core.files import FolderLayout, create_whole, locked, read_json, write_json
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.plain_files import wrap_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeNote:
    """The location of `.offsite`. `id`: id of the folder, shared by its copies."""

    id: str
    path: str
    device: str
    inode: str

    def is_at(self, here: HomeNote) -> bool:
        return self.inode == here.inode and (self.device == here.device or self.path == here.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move to confirm. `before`: the former path."""

    folder: str
    before: str


def bind(layout: FolderLayout) -> None:
    """Record the location of `.offsite`, if not recorded yet or moved. Raises `FolderCopied`."""
    here = _here(layout, random_uuid())
    if read_json(layout.home) is None:
        create_whole(layout.home, encode_object({"format": FORMAT, **_fields(here)}))
    with locked(layout.lock):
        check_own(layout)
        note = _note(layout)
        if note is not None and note != (now := _here(layout, note.id)):
            write_json(layout.home, _fields(now))


def check_own(layout: FolderLayout) -> None:
    """Raises `FolderCopied` if `.offsite` is a copy."""
    note = _note(layout)
    if note is None or note.is_at(here := _here(layout, note.id)):
        return
    if note.path == here.path:
        raise FolderCopied(
            f"{layout.own} is another directory than before: it was restored from a backup, or it is a copy",
            hint="if the folder was restored, and no operator uses a copy of it elsewhere: offsite operator moved "
            f"--dir {layout.root}. To make new resources from its files instead: rm -r {layout.own}",
        )
    raise FolderCopied(
        f"{layout.own} is a copy: the original is in {note.path}, and an operator manages its resources there",
        hint=f"to make new resources from its files: rm -r {layout.own}. If the folder was moved here instead: offsite "
        f"operator moved --dir {layout.root}",
    )


def plan_move(layout: FolderLayout) -> Move:
    """Raises `BadOption` without a move to confirm, or if the folder still exists at its former path as well. A folder
    restored to its former path is a new directory: the move may be confirmed."""
    note = _note(layout)
    if note is None or note.is_at(_here(layout, note.id)):
        raise BadOption(f"{layout.root} is not a copy: there is nothing to confirm")
    if _is_looked_after(FolderLayout(root=Path(note.path)), note.id):
        raise BadOption(
            f"{layout.root} is a copy: the folder is still in {note.path}",
            hint=f"to make new resources from its files: rm -r {layout.own}",
        )
    return Move(folder=str(layout.root), before=note.path)


def confirm_move(layout: FolderLayout) -> Move:
    """Let the resources continue in the folder at its present path. Raises `BadOption` like `plan_move`."""
    with locked(layout.lock):
        plan, note = plan_move(layout), _note(layout)
        if note is not None:
            write_json(layout.home, _fields(_here(layout, note.id)))
        return plan


def _is_looked_after(layout: FolderLayout, home_id: str) -> bool:
    """Whether the folder with `home_id` exists, in the recorded directory."""
    note = _note(layout)
    return note is not None and note.id == home_id and note.is_at(_here(layout, note.id))


def _here(layout: FolderLayout, home_id: str) -> HomeNote:
    with wrap_errors("look at", str(layout.own)):
        stat = layout.own.lstat()  # a copy of a link is another link
    path = str(layout.root.resolve())
    return HomeNote(id=home_id, path=path, device=str(stat.st_dev), inode=str(stat.st_ino))


def _fields(note: HomeNote) -> dict[str, str]:
    return {"id": note.id, "path": note.path, "device": note.device, "inode": note.inode}


def _note(layout: FolderLayout) -> HomeNote | None:
    document = read_json(layout.home)
    if document is None:
        return None
    return HomeNote(
        id=document.text("id"), path=document.text("path"), device=document.text("device"), inode=document.text("inode")
    )
