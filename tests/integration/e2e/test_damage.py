"""Damaged repositories: verify names what is wrong, the rest can be restored, and nothing wrong is restored."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.model.errors import CommitsGone, Damaged, DamagedCommit
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.overview.status import read_status
from offsite.repository.segments.segment import Compression, Segment
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.sandbox.jars import DUMP_LOG_SEGMENTS, run_tool
from offsite.upkeep.verification.run import verify_deep, verify_quick
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.command import files_under, offsite
from tests.integration.e2e.site import BACKUP, Site, new_name
from tests.integration.e2e.transactions import with_transaction


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: what damage is named does not depend on who runs the tasks. The command `verify --deep` below has one."""
    return CrossingRunner()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two topics in one backup: `broken` has an index and two segments to damage, `sound` is left alone."""

    broken: str
    sound: str
    segments: tuple[Segment, ...]
    folder: Path


@pytest.fixture
def pair(site: Site) -> Pair:
    broken, sound = site.make_topic(), site.make_topic()
    site.produce(sound, numbered(0, 100))
    with_transaction(site, broken, numbered(0, 100), commit=True)
    site.back_up(broken, sound)
    with_transaction(site, broken, numbered(100, 200), commit=True)
    site.back_up()
    segments = tuple(each for each in site.backup.state().all_segments() if each.topic == broken)
    assert len(segments) == 2
    return Pair(broken=broken, sound=sound, segments=segments, folder=Path(site.repository.store.url))


def numbered(start: int, end: int) -> list[DemoMessage]:
    return [DemoMessage(key=b"%d" % n, value=b"record %d" % n, timestamp_ms=BASE_MS + n) for n in range(start, end)]


def object_path(pair: Pair, *, index: bool = False) -> Path:
    segment = pair.segments[0]
    return pair.folder / ((segment.index_key or "") if index else segment.key)


def truncated(pair: Pair) -> Path:
    path = object_path(pair)
    path.write_bytes(path.read_bytes()[:-7])
    return path


def flipped(pair: Pair) -> Path:
    path = object_path(pair)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def swapped(pair: Pair) -> Path:
    path = object_path(pair)
    path.write_bytes((pair.folder / pair.segments[1].key).read_bytes())
    return path


def missing(pair: Pair) -> Path:
    path = object_path(pair)
    path.unlink()
    return path


def index_missing(pair: Pair) -> Path:
    path = object_path(pair, index=True)
    path.unlink()
    return path


def index_flipped(pair: Pair) -> Path:
    path = object_path(pair, index=True)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    return path


SEEN_AT_ONCE = {truncated, swapped, missing, index_missing}
Break = Callable[[Pair], Path]


@pytest.mark.parametrize("damage", [truncated, flipped, swapped, missing, index_missing, index_flipped])
def test_damage_is_named_spares_the_rest_and_is_cured_by_putting_the_object_back(
    site: Site, pair: Pair, damage: Break
) -> None:
    whole = {path: path.read_bytes() for path in (object_path(pair), object_path(pair, index=True))}
    before = site.read(pair.broken)
    path = damage(pair)
    found = verify_deep(site.backup, site.spark)
    assert not found.ok
    (named,) = found.damaged
    assert named.key == pair.segments[0].key
    assert (named.topic, named.first_commit, named.last_commit) == (pair.broken, 1, 2)
    assert verify_quick(site.backup).ok is (damage not in SEEN_AT_ONCE)
    sound = new_name(pair.sound)
    site.restore(pair.sound, sound)
    site.assert_same(site.read(pair.sound), site.read(sound))
    target = new_name(pair.broken)
    with pytest.raises(Damaged) as refusal:
        site.restore(pair.broken, target)
    assert pair.segments[0].key in refusal.value.message
    assert refusal.value.hint
    path.write_bytes(whole[path])
    assert site.restore(pair.broken, target).resumed
    site.assert_same(before, site.read(target))
    site.assert_verified()


def test_a_partition_that_cannot_be_restored_holds_up_no_other(site: Site, pair: Pair) -> None:
    whole = object_path(pair).read_bytes()
    path, suffix = flipped(pair), new_name("")
    request = RestoreRequest(selection=parse_selection(["*"]), renames=parse_renames([f"*=*{suffix}"]))

    def restore() -> RestoreResult:
        prepared = prepare_restore(site.backup, site.cluster.admin, request)
        return run_restore(prepared, cluster=site.cluster, runner=site.spark)

    with pytest.raises(Damaged, match=re.escape(pair.segments[0].key)):
        restore()
    site.assert_same(site.read(pair.sound), site.read(pair.sound + suffix))
    path.write_bytes(whole)
    assert restore().resumed
    for topic in (pair.sound, pair.broken):
        site.assert_same(site.read(topic), site.read(topic + suffix))


@pytest.mark.parametrize(("seq", "gone"), [pytest.param(1, True, marks=pytest.mark.soak), (1, False), (2, False)])
def test_a_damaged_commit_is_named_and_nothing_is_built_on_it(site: Site, pair: Pair, seq: int, gone: bool) -> None:
    commit = pair.folder / "backups" / BACKUP / "commits" / f"{seq:020}.json"
    whole = commit.read_bytes()
    if gone:
        commit.unlink()
    else:
        commit.write_bytes(whole.replace(b'"partition":0', b'"partition":x', 1))
        assert commit.read_bytes() != whole
    before = files_under(pair.folder)
    (damaged,) = verify_quick(site.backup).damaged_commits
    assert damaged.first_commit == seq
    with pytest.raises(DamagedCommit):
        site.back_up()
    (status,) = read_status(site.repository).backups
    assert not status.safe
    done = offsite("verify", "--repo", pair.folder, "--backup", BACKUP, "--deep")
    assert (done.exit_code, done.error["id"]) == (Damaged.exit_code, DamagedCommit.id)
    assert [each["first_commit"] for each in done.result["damaged_commits"]] == [seq]
    shown = offsite("show", "--repo", pair.folder, BACKUP)
    assert shown.exit_code == Damaged.exit_code
    assert shown.error["id"] == DamagedCommit.id if seq == 1 else shown.result["commit"] == seq - 1
    listed = offsite("list", "--repo", pair.folder)
    assert (listed.exit_code, bool(listed.result["backups"][0]["problem"])) == (Damaged.exit_code, True)
    after = files_under(pair.folder)
    (record,) = after.keys() - before
    assert record.startswith(f"backups/{BACKUP}/verifies/deep/")
    assert after == before | {record: after[record]}
    commit.write_bytes(whole)
    site.assert_verified()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_kafka_s_own_tool_reads_every_segment(site: Site, tmp_path: Path, codec: str) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 1000), compression_type=codec, batch_num_messages=100)
    site.delete_before(topic, 250)
    site.back_up(topic)
    (segment,) = site.backup.state().all_segments()
    assert (segment.compression is Compression.ZSTD) == (codec == "none")
    content = Path(site.repository.store.url, segment.key).read_bytes()
    if segment.compression is Compression.ZSTD:
        content = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(content)
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(content)
    printed = run_tool(DUMP_LOG_SEGMENTS, ["--files", str(log)])
    verdicts = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+) .* isvalid: (\w+)", printed, re.MULTILINE)
    assert len(verdicts) == segment.batches > 1
    assert {verdict for _, _, verdict in verdicts} == {"true"}
    assert int(verdicts[0][0]) <= 250 <= int(verdicts[0][1])
    assert int(verdicts[-1][1]) == 999


def test_a_damaged_newest_commit_leaves_what_lies_before_it(site: Site, pair: Pair) -> None:
    """Who reads takes the commit before, says so, and ends with the exit code of damage; who writes refuses."""
    commit = pair.folder / "backups" / BACKUP / "commits" / f"{2:020}.json"
    whole = commit.read_bytes()
    commit.write_bytes(whole.replace(b'"end":', b'"dnd":', 1))
    ends = ("--repo", pair.folder, "--backup", BACKUP, "--bootstrap", site.cluster.bootstrap)
    for chosen in ((), ("--commit", "1")):
        target = new_name(pair.sound)
        names = ("--topics", pair.sound, "--rename", f"{pair.sound}={target}", "--yes", *chosen)
        done = offsite("restore", "run", *ends, *names)
        assert done.exit_code == Damaged.exit_code, done.stderr
        assert (done.result["verified"], done.result["commit"], done.result["records"]) == (True, 1, 100)
        assert f"warning: backup {BACKUP} can be used only up to commit 1" in done.stderr
        site.assert_same(site.read(pair.sound), site.read(target))
    for refused in (("restore", "plan", *ends, "--commit", "2"), ("backup", "run", *ends)):
        done = offsite(*refused)
        assert (done.exit_code, done.error["id"]) == (Damaged.exit_code, DamagedCommit.id)
    status = offsite("status", "--repo", pair.folder)
    assert (status.exit_code, status.result["backups"][0]["head_commit"]) == (Damaged.exit_code, 1)
    commit.write_bytes(whole)
    site.assert_verified()


def test_a_repository_that_was_put_back_is_noticed(site: Site, pair: Pair, tmp_path: Path) -> None:
    ends = ("--repo", pair.folder, "--backup", BACKUP)
    told = offsite("verify", *ends).result
    head = f"{told['head_commit']}:{told['head_hash'][:16]}"
    assert offsite("verify", *ends, "--expect-head", head).exit_code == 0
    commit = pair.folder / "backups" / BACKUP / "commits" / f"{2:020}.json"
    commit.rename(tmp_path / "kept")
    for command in (("verify", *ends), ("verify", *ends, "--expect-head", head), ("status", *ends[:2])):
        done = offsite(*command)
        assert done.exit_code == Damaged.exit_code
        assert "existed and is missing now" in done.stdout
    done = offsite("backup", "run", *ends, "--bootstrap", site.cluster.bootstrap)
    assert (done.exit_code, done.error["id"]) == (Damaged.exit_code, CommitsGone.id)
    assert offsite("verify", *ends, "--accept-head").exit_code == 0
    assert offsite("verify", *ends, "--expect-head", head).exit_code == Damaged.exit_code
    (tmp_path / "kept").rename(commit)
    site.assert_verified()
