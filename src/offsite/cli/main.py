"""The entry point: any signal, from the first moment on, ends a command cleanly and quietly. No state of the standard
streams causes a traceback.

Imports next to nothing, so signals are handled before further imports.
"""

from __future__ import annotations

import sys

from offsite.cli.process import Interruption, end_streams, open_streams


def main() -> None:
    open_streams()
    interruption = Interruption()
    interruption.end_at_once()
    from offsite.cli.app import run

    try:
        try:
            interruption.raise_in_command()
            run()
        finally:  # first: a signal during the checks below would be an uncaught error
            interruption.end_at_once()
            end_streams()
    except (SystemExit, KeyboardInterrupt) as end:
        if interruption.signal is None or (isinstance(end, SystemExit) and not end.code):
            raise
        interruption.tell()
        sys.exit(interruption.exit_code)
