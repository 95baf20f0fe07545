from __future__ import annotations

import io
import subprocess
import sys

import pytest

from offsite.repository.parquet import read_parquet

READ_AND_COUNT = """
import io, os
import pyarrow as pa
from pyarrow import parquet
from offsite.repository.parquet import read_parquet
sink = io.BytesIO()
parquet.write_table(pa.table({"group": ["a", "b"] * 5000, "offset": range(10000)}), sink)
before = os.listdir("/proc/self/task")
assert read_parquet(sink.getvalue()).num_rows == 10000
assert os.listdir("/proc/self/task") == before, "a thread that may outlive Python"
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_reading_parquet_starts_no_thread_that_could_abort_the_process_as_it_ends() -> None:
    subprocess.run([sys.executable, "-c", READ_AND_COUNT], check=True, timeout=60)


def test_column_names_that_are_no_text_are_no_parquet() -> None:
    import pyarrow as pa
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pa.table({"offsets": [1]}), sink, store_schema=False)
    data = sink.getvalue()
    for name in (b"\xcdffsets", b"\xff" * 7):
        with pytest.raises(pa.ArrowException):
            read_parquet(data.replace(b"offsets", name))
