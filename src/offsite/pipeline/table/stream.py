"""`spark.readStream.format("offsite")`: a backup as a stream of rows, commit by commit. Its offset is a commit number.

A micro-batch holds what a consumer could see after its last commit and could not see before its first: the rows of the
segments those commits added, and, read committed, rows of earlier segments whose transactions they ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from offsite.model.errors import BadOption
from offsite.pipeline.table.options import BATCH_OPTIONS, EARLIEST, LATEST, TableOptions

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from offsite.repository.backup import Backup
