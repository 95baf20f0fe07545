"""An offsite command in the driver that `spark-submit` has started: for clusters that allow nothing else, and for
drivers on the cluster itself."""

from __future__ import annotations

import os

SCRIPT = '''"""Runs a command of offsite where spark-submit puts it: spark-submit ... offsite-job.py backup run ..."""

from offsite.cli.job import main

if __name__ == "__main__":
    main()
'''
"""What `spark-submit` is given: it takes no program but a file."""


def main() -> None:
    """The context comes first: YARN takes a program that never makes one for failed, whatever it did."""
    from offsite.cli.main import main as command
    from offsite.spark.sessions.joined_session import submitted_context
    from offsite.spark.sessions.master import SUBMITTED

    os.environ.setdefault("OFFSITE_SPARK_MASTER", SUBMITTED)
    submitted_context()
    command()
