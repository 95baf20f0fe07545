"""The resource `Restore`: one restore, done once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from offsite.operator.resources.model import NUMBER_MAX, Name, OptionalName, Patterns, Resource, Strict, Text


class RestoreState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


class RestoreSpec(Strict):
    """Immutable, but that `state` may go from `running` to `stopped`."""

    backup_url: Annotated[str, StringConstraints(min_length=3, max_length=1024, pattern=r"^.+#.+$")]
    """The repository and the backup in it: `s3://bucket/prefix#shop-2026-11-24`."""
    account: OptionalName = ""
    """The account whose credentials open the repository. Empty: the first one."""
    cluster: Name
    """The destination: a cluster of the clusters folder."""
    state: RestoreState = RestoreState.RUNNING
    """`stopped` ends it for good."""
    topics: Patterns = ("*",)
    """What is restored."""
    rename: Annotated[tuple[Annotated[str, StringConstraints(max_length=512)], ...], Field(max_length=256)] = ()
    """Other names for topics: `old=new`, `orders-*=restored-*`."""
    commit: Annotated[int, Field(ge=0, le=NUMBER_MAX, strict=True)] = 0
    """The version: a number of a commit. 0: the newest one, or that of `timestamp`."""
    timestamp: Annotated[str, StringConstraints(max_length=40)] = ""
    """The newest commit at or before this time. `commit` counts more where both are given."""
    source_cluster: OptionalName = ""
    """The cluster that was backed up. Needed with `timestamp`, which is a time of that cluster."""
    tag: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", max_length=63)] = "default"
    """A word for people. One restore of a tag runs at a time in a cluster."""
    offsets: Literal["auto", "preserve", "translate"] = "auto"
    """Whether records keep their old offsets, as `--offsets` of `offsite restore run`."""
    groups: Text = "none"
    """Consumer groups that are set to their place: `all`, `none`, or patterns."""

    @model_validator(mode="after")
    def _time_has_a_cluster(self) -> RestoreSpec:
        if self.timestamp and not self.commit and not self.source_cluster:
            raise ValueError("timestamp needs sourceCluster: it is a time of that cluster")
        return self


class Restore(Resource):
    """One restore of a backup into a cluster. A finished one is never run again."""

    kind: Literal["Restore"]
    spec: RestoreSpec
