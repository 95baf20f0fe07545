"""The entry point: whatever signal ends a command, from the first moment on, ends it cleanly and quietly. Whatever its
standard streams are, none of them is a traceback.

Imports next to nothing, so that signals are heard before the rest is imported.
"""

from __future__ import annotations

import sys

from offsite.cli.interruption import Interruption
from offsite.cli.streams import end_streams, open_streams


def main() -> None:
    open_streams()
    interruption = Interruption()
    interruption.end_at_once()
    from offsite.cli.app import run

    try:
        try:
            interruption.raise_in_command()
            run()
        finally:  # before the end is looked at: a signal amid that would be an error that nobody takes
            interruption.end_at_once()
            end_streams()
    except (SystemExit, KeyboardInterrupt) as end:
        if interruption.signal is None or (isinstance(end, SystemExit) and not end.code):
            raise
        interruption.tell()
        sys.exit(interruption.exit_code)
