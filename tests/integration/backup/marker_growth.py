"""How much memory a reader takes for the outcomes of a partition: run in a process of its own, prints MiB of growth.

python -m tests.integration.backup.marker_growth FOLDER   with what `write_partition` left there
"""

from __future__ import annotations

import pickle
import random
import sys
from array import array
from pathlib import Path

from offsite.log.markers import Markers
from offsite.log.range import PartitionId
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import committed_view
from offsite.repository.segments.body import content_hash
from offsite.repository.segments.index import Frame, SegmentIndex, encode_index
from offsite.repository.segments.segment import Compression, Segment
from offsite.stores.posix_store import open_folder

SEGMENT_MARKERS = 200_000
"""A segment of 96 MiB holds about as many where transactions are of a few records."""
STEP = 3
"""Offsets from one marker to the next."""


def write_partition(folder: Path, *, markers: int, producers: int, aborted: float) -> None:
    """The sidecars of a partition with that many markers, and the chain of its segments. Producers take turns at
    random; `aborted` is the part of aborts, 2 for every second marker of each producer."""
    store = open_folder(folder)
    store.prepare()
    rng = random.Random(4)
    ended = array("B", bytes(producers))
    segments = []
    for start in range(0, markers, SEGMENT_MARKERS):
        rows = array("q")
        for number in range(start, min(start + SEGMENT_MARKERS, markers)):
            producer = rng.randrange(producers)
            ended[producer] ^= 1
            committed = ended[producer] if aborted > 1 else rng.random() >= aborted
            rows.extend((number * STEP + 2, 50_000 + producer, 0, int(committed), number * STEP))
        segments.append(_stored(folder, start * STEP, Markers(rows=rows)))
    chain = PartitionChain(
        source=PartitionId(topic="t", topic_id="id", partition=0),
        segments=tuple(segments),
        end=markers * STEP,
    )
    Path(folder, "chain.pickle").write_bytes(pickle.dumps(chain))


def _stored(folder: Path, start: int, markers: Markers) -> Segment:
    key = f"backups/b/topics/t/partition=0/t+0-{start:020}-00000000"
    frames = (Frame(first_offset=start, raw_position=0, stored_position=0, timestamp_max_ms=-1, raw_crc=0),)
    data = encode_index(SegmentIndex(segment_key=f"{key}.log", frames=frames, markers=markers, open=()))
    open_folder(folder).put_if_absent(f"{key}.idx", data)
    end = start + len(markers) * STEP
    return Segment(
        key=f"{key}.log",
        topic="t",
        topic_id="id",
        partition=0,
        start=start,
        end=end,
        first_offset=start,
        last_offset=end - 1,
        records=2 * len(markers),
        control_batches=len(markers),
        batches=3 * len(markers),
        largest_batch_bytes=100,
        raw_bytes=1,
        stored_bytes=1,
        compression=Compression.NONE,
        base_timestamp_min_ms=0,
        timestamp_max_ms=0,
        timestamp_types=(0,),
        leader_epochs=(0,),
        has_transactions=True,
        hash="",
        index_key=f"{key}.idx",
        index_hash=content_hash(data),
    )


def _high_water_bytes() -> int:
    """The most memory this process ever had (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    folder = Path(sys.argv[1])
    chain = pickle.loads(Path(folder, "chain.pickle").read_bytes())
    before = _high_water_bytes()
    view = committed_view(chain, open_folder(folder))
    sys.stdout.write(f"{(_high_water_bytes() - before) / 2**20:.1f}\n")
    del view


if __name__ == "__main__":
    main()
