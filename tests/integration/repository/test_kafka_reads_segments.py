from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from offsite.log.range import LogRange
from offsite.model.options import CompressionChoice
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.writer import SegmentWriter
from offsite.sandbox.jars import DUMP_LOG_SEGMENTS, run_tool
from offsite.stores.posix_store import open_folder
from tests.batches import chunk_of, make_batch, make_control_batch, make_log


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_kafka_s_own_tool_reads_a_segment(tmp_path: Path, compression: CompressionChoice) -> None:
    store = open_folder(tmp_path / "repository")
    store.prepare()
    log = make_log(1000, 1100, codec=3) + make_batch(1100) + make_control_batch(1110, producer_id=7, committed=True)
    log_range = LogRange(topic="t", partition=0, start=1000, end=2000)
    with SegmentWriter(
        store=store, layout=BackupLayout(backup="b"), log_range=log_range, topic_id="id", compression=compression
    ) as writer:
        writer.append(chunk_of(log))
        (segment,) = writer.close()
    stored = store.get(segment.key)
    assert stored is not None
    raw = stored
    if compression == "zstd":
        raw = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(stored)
    file = tmp_path / f"{1000:020}.log"
    file.write_bytes(raw)
    printed = run_tool(DUMP_LOG_SEGMENTS, ["--deep-iteration", "--print-data-log", "--files", str(file)])
    assert printed.count("isvalid: true") == 12
    assert printed.count("payload: value") == segment.records == 110
    assert "endTxnMarker: COMMIT" in printed
    assert "invalid" not in printed.replace("isvalid", "")
