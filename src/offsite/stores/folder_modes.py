"""Who may read what offsite writes: whom the root folder lets in, and nobody else.

offsite makes root folders for their owner alone (0700). A root that was there keeps its mode, and what is written below
it follows: in a folder of mode 0750 folders are made 0750 and files 0640. The umask takes away from that as ever.
"""

from __future__ import annotations

import stat
from pathlib import Path

PRIVATE_FOLDER = 0o700


def make_private_root(root: Path) -> None:
    """Make `root`, for its owner alone; one that is there stays as it is. Raises `OSError`."""
    root.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


def folder_mode(root: Path) -> int:
    """The mode of a new folder below `root`. Raises `OSError`."""
    return stat.S_IMODE(root.stat().st_mode) & 0o777 | PRIVATE_FOLDER


def file_mode(root: Path) -> int:
    """The mode of a new file below `root`. Raises `OSError`."""
    return folder_mode(root) & 0o666
