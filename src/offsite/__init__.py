"""offsite: hot, consistent, verifiable backup and restore for Apache Kafka.

import offsite

repo = offsite.open("s3://bucket/prefix")
backup = repo.backup("orders")
backup.restore_points()
"""

from __future__ import annotations

from offsite.library.backup import Backup
from offsite.library.repo import Repo, init, open  # noqa: A004  # offsite.open reads as it should
from offsite.model.version import __version__

__all__ = ["Backup", "Repo", "__version__", "init", "open"]
