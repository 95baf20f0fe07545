"""Repositories for a browser to look at, each behind an `offsite serve` of its own process: what is in them was made by
a double of Kafka, so no page needs a broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.jobs.ask import JobRequest, request_job
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from tests.fake_cluster.site import BACKUP, Site, open_site
from tests.integration.e2e.command import OFFSITE, clean_environment

BASE = f"/backups/{BACKUP}"
CHECKPOINT = 7
LIMIT_S = 60.0
HOSTILE = '<script>document.title="taken over"</script>'


@contextmanager
def coordinator(
    repository: Path | str | None, *options: object, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The URL of one that serves it; None: the options name a file of several."""
    words = [] if {"--token-file", "--oidc"} & set(options) else ["--no-token"]
    words += [] if repository is None else ["--repo", str(repository)]
    process = subprocess.Popen(
        [str(OFFSITE), "serve", "--port", "0", *words, *map(str, options)],
        env=clean_environment(environment),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        yield next(line for line in process.stderr if line.startswith("serving")).split()[-1]
    finally:
        process.kill()
        process.wait(LIMIT_S)
        process.stderr.close()


@contextmanager
def full_site(folder: Path) -> Iterator[Site]:
    """A bit of everything: topics with holes, groups, pins, a checkpoint, a job, and ill-meant words."""
    with open_site(folder) as site:
        site.source.make_topic("orders", partitions=3)
        site.source.make_topic("payments")
        site.source.write("orders", [b'{"order": 1}', HOSTILE.encode(), None, b"\xff\xfe"], key=HOSTILE.encode())
        site.source.write("payments", [b"42"] * 20)
        site.source.commit_group("billing", "payments", [3])
        site.back_up("*")
        site.source.write("payments", [b"43"] * 20)
        site.back_up()
        take_checkpoint(site, CHECKPOINT)
        request_job(
            site.repository.store, JobRequest(kind="drill", arguments=("restore", "drill"), backup=BACKUP, by="ann")
        )
        yield site


def take_checkpoint(site: Site, checkpoint: int) -> None:
    request_checkpoint(site.backup, checkpoint)
    CheckpointServer(
        repository=site.repository, backup=site.backup, cluster=site.source.connected, runner=site.runner
    ).serve()


def empty_repository(folder: Path) -> Path:
    Repository.init(open_folder(folder / "repository"))
    return folder / "repository"


def damage(folder: Path) -> None:
    """The newest commit is not what it was."""
    newest = max((folder / "repository" / "backups" / BACKUP / "commits").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:-20])
