"""Old jobs are forgotten when they are over, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.jobs.ask import JobRequest, request_job
from offsite.jobs.end import LEAST_S, forget_jobs
from offsite.jobs.status import JobState, read_job, read_jobs
from offsite.jobs.work import work_on
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, JobNotFound
from offsite.repository.job import KEYS_PREFIX, JobEnd, JobLayout
from offsite.repository.job_records import JobRecords
from offsite.stores.posix_store import PosixStore, open_folder

REQUEST = JobRequest(kind="verify", arguments=("verify",), backup="nightly", by="ann")
DAY_MS = 24 * 3_600_000


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    found = open_folder(tmp_path / "repository")
    found.prepare()
    return found


def ended(store: PosixStore, word: str) -> str:
    asked = request_job(store, REQUEST, word=word)
    records = JobRecords(store=store, layout=JobLayout(job=asked.id))
    ended = JobEnd(id=asked.id, at_ms=store.now_ms(), exit_code=0, result="{}", said="")
    records.put_end(ended, secret=asked.secret)
    return asked.id


def later(store: PosixStore, monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    now_ms = store.now_ms() + days * DAY_MS
    monkeypatch.setattr(PosixStore, "now_ms", lambda _: now_ms)


def test_what_is_over_and_old_goes_with_its_words(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ended(store, "a")
    later(store, monkeypatch, 40)
    second = ended(store, "b")
    done = forget_jobs(store, older_than_s=30 * 86_400)
    assert (done.jobs, done.kept) == ((first,), 0)
    assert [each.id for each in read_jobs(store).jobs] == [second]
    assert len(list(store.list(KEYS_PREFIX))) == 1
    assert list(store.list(JobLayout(job=first).prefix)) == []
    with pytest.raises(JobNotFound):
        read_job(store, first)
    assert request_job(store, REQUEST, word="a").is_new
    assert not request_job(store, REQUEST, word="b").is_new


def test_what_is_under_way_or_damaged_stays(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged, busy = ended(store, "a"), request_job(store, REQUEST, word="b").id
    store.put_overwrite(JobLayout(job=damaged).asked_key, b"{")
    with work_on(store, busy, cancel=lambda: None, clock=SystemClock()):
        now_ms = store.now_ms()
        done = forget_jobs(_Later(store, now_ms + 40 * DAY_MS), older_than_s=LEAST_S)  # type: ignore[arg-type]
    assert (done.jobs, done.kept) == ((), 2)
    told = {each.id: each for each in read_jobs(store).jobs}
    assert "OFF-" in told[damaged].problem
    assert told[damaged].state is JobState.LOST
    assert told[busy].problem == ""


class _Later:
    """A store whose clock is ahead, and whose leases are as fresh as they were."""

    def __init__(self, store: PosixStore, now_ms: int) -> None:
        self._store, self._now_ms, self._asked = store, now_ms, 0

    def now_ms(self) -> int:
        self._asked += 1
        return self._now_ms if self._asked == 1 else self._store.now_ms()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def test_a_job_of_today_is_never_forgotten(store: PosixStore) -> None:
    with pytest.raises(BadOption):
        forget_jobs(store, older_than_s=3600)
