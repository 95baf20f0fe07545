"""An offsite command in the driver started by `spark-submit`: for clusters without another way, and for drivers on the
cluster."""

from __future__ import annotations

import os

SCRIPT = '''"""Runs a command of offsite where spark-submit puts it: spark-submit ... offsite-job.py backup run ..."""

from offsite.cli.job import main

if __name__ == "__main__":
    main()
'''
"""The script for `spark-submit`, which accepts a file as a program only."""


def main() -> None:
    """Run the command. The context comes first: for YARN, a program without a context has failed, whatever the program
    did."""
    from offsite.cli.main import main as command
    from offsite.engine.sessions.master import SUBMITTED
    from offsite.engine.sessions.submitted_spark import submitted_context

    os.environ.setdefault("OFFSITE_SPARK_MASTER", SUBMITTED)
    submitted_context()
    command()
