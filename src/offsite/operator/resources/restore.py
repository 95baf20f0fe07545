"""The resource `Restore`: one restore, done once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from offsite.model.options import Keyless, KeylessText
from offsite.operator.resources.model import (
    NUMBER_MAX,
    Name,
    OptionalName,
    OptionalRate,
    OptionalSize,
    Patterns,
    Resource,
    Strict,
    Text,
)

Texts = Annotated[tuple[Annotated[str, StringConstraints(max_length=512)], ...], Field(max_length=256)]


NO_NEW_BATCHES = "batchBytes needs repartition: all other topics keep the batches of the source"


class RestoreState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


class RestoreSpec(Strict):
    """Immutable, except that `state` may change from `running` to `stopped`."""

    backup_url: Annotated[str, StringConstraints(min_length=3, max_length=1024, pattern=r"^.+#.+$")]
    """The repository and the backup in it: `s3://bucket/prefix#shop-2026-11-24`."""
    account: OptionalName = ""
    """The account whose credentials open the repository. Empty: the first account."""
    cluster: Name
    """The destination: a cluster of the clusters folder."""
    state: RestoreState = RestoreState.RUNNING
    """`stopped` ends the restore permanently."""
    topics: Patterns = ("*",)
    """Topics to restore."""
    rename: Texts = ()
    """New topic names: `old=new`, `orders-*=restored-*`."""
    repartition: Texts = ()
    """New numbers of partitions, by topic name in the backup: `orders=12`; `12` for all topics. Records are partitioned
    by key."""
    keyless: KeylessText = Keyless.DEFAULT.value
    """Records without a key in a repartitioned topic: `in-turn` loses their order."""
    batch_bytes: OptionalSize = ""
    """Size of the new batches of a repartitioned topic, before compression: `16kB` to `1MB`. Empty: 256 KiB. All other
    topics keep the batches of the source."""
    write_limit: OptionalRate = ""
    """Maximum bytes per second into the cluster, all workers together: `50MB`, `1.5MiB`. Empty: no limit."""
    commit: Annotated[int, Field(ge=0, le=NUMBER_MAX, strict=True)] = 0
    """The version: the number of a commit. 0: the newest commit, or the commit of `timestamp`."""
    timestamp: Annotated[str, StringConstraints(max_length=40)] = ""
    """The newest commit at or before this time. `commit` takes precedence if both are given."""
    source_cluster: OptionalName = ""
    """The cluster that was backed up. Required with `timestamp`, which is a time of the source cluster."""
    tag: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", max_length=63)] = "default"
    """A word for people. One restore of a tag runs at a time in a cluster."""
    offsets: Literal["auto", "preserve", "translate"] = "auto"
    """Whether records keep their old offsets, as `--offsets` of `offsite restore run`."""
    groups: Text = "none"
    """Consumer groups whose offsets are restored: `all`, `none`, or patterns."""

    @model_validator(mode="after")
    def _time_has_a_cluster(self) -> RestoreSpec:
        if self.timestamp and not self.commit and not self.source_cluster:
            raise ValueError("timestamp needs sourceCluster: the timestamp is a time of that cluster")
        return self

    @model_validator(mode="after")
    def _new_batches_have_topics(self) -> RestoreSpec:
        if self.batch_bytes and not self.repartition:
            raise ValueError(NO_NEW_BATCHES)
        return self


class Restore(Resource):
    """One restore of a backup into a cluster. A finished restore never runs again."""

    kind: Literal["Restore"]
    spec: RestoreSpec
