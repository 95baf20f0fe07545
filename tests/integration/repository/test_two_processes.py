from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from tests.backups import PARTITIONS, STEP, content, new_backup
from tests.batches import make_log

WRITERS = 4
COMMITS_EACH = 5

_WRITER = """
import os, sys
from pathlib import Path
from offsite.model.errors import CommitLost
from offsite.stores.posix_store import open_folder
from offsite.repository.repository import Repository
from tests.backups import commit_next
backup = Repository.open(open_folder(Path(sys.argv[1]))).backup("b")
won = lost = 0
while won < int(sys.argv[2]):
    try:
        commit_next(backup, backup.state())
        won += 1
    except CommitLost:
        lost += 1
print(won, lost)
"""


def test_processes_on_one_backup_win_each_commit_once(tmp_path: Path) -> None:
    store = open_folder(tmp_path / "repository")
    new_backup(store)
    command = [sys.executable, "-c", _WRITER, str(store.root), str(COMMITS_EACH)]
    root = Path(__file__).parents[3]
    writers = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)]
    printed = [writer.communicate(timeout=120)[0].split() for writer in writers]
    assert [int(won) for won, _ in printed] == [COMMITS_EACH] * WRITERS
    state = Repository.open(store).backup("b").state()
    assert state.seq == WRITERS * COMMITS_EACH
    assert content(store, state) == dict.fromkeys(PARTITIONS, make_log(0, state.seq * STEP))
