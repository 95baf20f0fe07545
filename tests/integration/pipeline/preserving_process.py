"""One preserved partition in a process of its own, to be killed: `python -m … TASK-FILE`. Says when it begins."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from offsite.restore.write.bundle import restore_any_partition

if __name__ == "__main__":
    task, ends = pickle.loads(Path(sys.argv[1]).read_bytes())  # the test wrote it
    print("begun", flush=True)  # noqa: T201
    restore_any_partition(task, ends=ends)
    print("done", flush=True)  # noqa: T201
