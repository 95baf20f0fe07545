"""The guard's process: `python -m offsite.sandbox.end_with_owner FOLDER` stops the folder's sandbox when stdin ends."""

from __future__ import annotations

import sys
from pathlib import Path

from offsite.sandbox.broker import Sandbox


def main() -> None:
    sys.stdin.buffer.read()
    Sandbox(Path(sys.argv[1])).stop()


if __name__ == "__main__":
    main()
