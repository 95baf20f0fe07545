"""The error tree of offsite.

Kinds name the caller's next step; leaves name the event. Every leaf has a stable `id` (never reused), the exit code of
its kind, and takes a `hint` with the next command or action.

    OffsiteError
    |-- UserError         2   the request or the configuration is wrong; nothing was done
    |-- NoRepository     10   the repository or backup does not exist
    |-- Conflict         11   another writer was first: re-read, then decide
    |-- Damaged          13   stored or received bytes differ from the written bytes
    |-- Refused          14   a guard said no; nothing was changed
    |-- KafkaUnavailable 15   the cluster did not answer: try again later
    |-- StoreUnavailable 16   the store did not answer: try again later
    |-- Denied           17   authentication or authorisation failed
    `-- Bug               1   an invariant of offsite itself does not hold

Third-party errors are wrapped in the adapters, chained with `from`. Exit code 3 (finished with holes) is a result, not
an error.

Assertions that stay on in production: offsite's own invariants, checked in pairs (before a write, after a read).
"""

from __future__ import annotations

from typing import ClassVar, TypeVar


class OffsiteError(Exception):
    """Base of every error that a person may see. `hint`: the next step, or empty."""

    id: ClassVar[str] = "OFF-0001"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickle the error with its hint, because errors cross process borders (Spark workers)."""
        return _rebuild, (type(self), self.message, self.hint)


ErrorT = TypeVar("ErrorT", bound=OffsiteError)


def _rebuild(kind: type[ErrorT], message: str, hint: str) -> ErrorT:
    return kind(message, hint=hint)


class UserError(OffsiteError):
    """The request or the configuration is wrong; nothing was done."""

    id = "OFF-0200"
    exit_code = 2


class NoRepository(OffsiteError):
    """The repository or backup does not exist."""

    id = "OFF-1000"
    exit_code = 10


class Conflict(OffsiteError):
    """Another writer was first: re-read, then decide."""

    id = "OFF-1100"
    exit_code = 11


class Damaged(OffsiteError):
    """Stored or received bytes differ from the written bytes."""

    id = "OFF-1300"
    exit_code = 13


class Refused(OffsiteError):
    """A guard said no; nothing was changed."""

    id = "OFF-1400"
    exit_code = 14


class KafkaUnavailable(OffsiteError):
    """The cluster did not answer: try again later."""

    id = "OFF-1500"
    exit_code = 15


class StoreUnavailable(OffsiteError):
    """The store did not answer: try again later."""

    id = "OFF-1600"
    exit_code = 16


class Denied(OffsiteError):
    """Authentication or authorisation failed."""

    id = "OFF-1700"
    exit_code = 17


class Bug(OffsiteError):
    """An invariant of offsite itself does not hold."""

    id = "OFF-0100"
    exit_code = 1


# -- UserError ---------------------------------------------------------------------------------------------------------


class BadName(UserError):
    """The name of a backup or topic, or another name, holds characters that could leave the name's place in the
    repository."""

    id = "OFF-0201"


class BadOption(UserError):
    """An option's value cannot be read, or contradicts another option."""

    id = "OFF-0202"


class NoSuchTopic(UserError):
    """A literally named topic does not exist, or a selection matches nothing."""

    id = "OFF-0203"


class BadKafkaConfig(UserError):
    """A client.properties file, or a value in the file, cannot be used."""

    id = "OFF-0204"


class BadRepositoryUrl(UserError):
    """The text names no folder and no supported object store, or holds what a URL may not hold."""

    id = "OFF-0205"


class JavaMissing(UserError):
    """No Java runtime was found, or the runtime is too old for Spark or Kafka."""

    id = "OFF-0206"


class BackupExists(UserError):
    """The backup exists with another source or selection than requested, or was removed lately."""

    id = "OFF-0207"


class NoSuchRestorePoint(UserError):
    """The backup has no commit of the number, or none at or before the time."""

    id = "OFF-0208"


class NoConsistentCut(UserError):
    """A restore asked for the consistent cut of a restore point, and the point has no cut, or no usable cut."""

    id = "OFF-0216"


class NoSuchRestore(UserError):
    """The backup has no restore, or no change of groups, of the id."""

    id = "OFF-0209"


class ArchiveNotFound(UserError):
    """The place holds no archive of the format."""

    id = "OFF-0210"


class UnfitArchive(UserError):
    """A file of an archive is whole, but not in the form of its format: unsorted, or with other fields."""

    id = "OFF-0237"


class GenerationsDiffer(UserError):
    """The generations of the name were begun with other topics, or another place, than requested."""

    id = "OFF-0215"


class NoCommandTopic(UserError):
    """A topic has more than one partition, so the commands have no order."""

    id = "OFF-0217"


class BadResource(UserError):
    """A declared resource has an unknown field, lacks a field, or has a forbidden value."""

    id = "OFF-0218"


class AccountClosed(BadResource):
    """An account is for other namespaces than the resource's."""

    id = "OFF-0231"


class ClusterClosed(BadResource):
    """A cluster of the operator is for other namespaces than the resource's."""

    id = "OFF-0232"


class FolderCopied(UserError):
    """The folder of an operator is a copy, with the identities of another folder's resources; nothing was done."""

    id = "OFF-0219"


class BadSparkArchive(UserError):
    """The archive for executors of a Spark cluster cannot be made here, or is of another offsite or Python than this
    offsite."""

    id = "OFF-0220"


class BadRegistry(UserError):
    """The address is not that of a schema registry, its settings or its answers cannot be used, or another registry
    took its place; the message says what is wrong."""

    id = "OFF-0240"


# -- NoRepository ------------------------------------------------------------------------------------------------------


class RepositoryNotFound(NoRepository):
    """The folder or prefix holds no repository: `offsite.json` is missing."""

    id = "OFF-1001"


class BackupNotFound(NoRepository):
    """The repository holds no backup of the name."""

    id = "OFF-1002"


class JobNotFound(NoRepository):
    """The repository holds no job of the id."""

    id = "OFF-1004"


class ResourceNotFound(NoRepository):
    """No resource of the kind and name is declared, or known."""

    id = "OFF-1005"


class FormatTooNew(NoRepository):
    """A newer offsite wrote the repository."""

    id = "OFF-1003"


# -- Conflict ----------------------------------------------------------------------------------------------------------


class CommitLost(Conflict):
    """Another writer took the commit number; its content differs from ours."""

    id = "OFF-1101"


class ObjectTaken(Conflict):
    """A new object's name already holds different bytes; the stored bytes were left alone."""

    id = "OFF-1102"


class TopicReplaced(Conflict):
    """The topic was deleted and made again since the plan, or since the export: the name now belongs to another
    topic."""

    id = "OFF-1103"


class ArchiveBusy(Conflict):
    """Another process exports into the same archive, or did during the run: nothing of the run counts."""

    id = "OFF-1104"


class WriterFenced(Conflict):
    """A newer attempt at the same partition has begun: the brokers accept nothing more from the older attempt."""

    id = "OFF-1131"


class LeaseHeld(Conflict):
    """Another process is at the same work, and is alive: it holds the lease of the job, agent, operator or
    checkpoint."""

    id = "OFF-1139"


class RestoreRunning(LeaseHeld):
    """Another process carries out the restore, or a restore into the same topics, and is alive."""

    id = "OFF-1132"


class LeaseTakenOver(Conflict):
    """Another process has taken over the work, after a long silence of the former process: the former process has
    stopped, and changes nothing more."""

    id = "OFF-1140"


class RestoreTakenOver(LeaseTakenOver):
    """Another process has taken over the restore: the former process has stopped, and changes nothing more."""

    id = "OFF-1133"


class GenerationTakenOver(Conflict):
    """Another process now runs the instance of the generations: the former process has stopped, and writes nothing
    more."""

    id = "OFF-1135"


class RequestRepeated(Conflict):
    """The key of a repeated request was used for another request before; nothing was done."""

    id = "OFF-1136"


class ResourceConflict(Conflict):
    """The name of a backup, or of an object in Kubernetes, belongs to another declared resource."""

    id = "OFF-1138"


class TargetDisturbed(Conflict):
    """Two attempts of one restore wrote at the same time: the target holds some of its records twice."""

    id = "OFF-1134"


class BackupFileInUse(Conflict):
    """Another process writes the backup files of the topic in the folder."""

    id = "OFF-1137"


# -- Damaged -----------------------------------------------------------------------------------------------------------


class DamagedBatch(Damaged):
    """A RecordBatch is cut, has a wrong CRC32C, an unknown magic, or offsets that go backwards."""

    id = "OFF-1301"


class DamagedObject(Damaged):
    """An object of the repository is missing, cut, or does not match its recorded hash."""

    id = "OFF-1302"


class DamagedCommit(Damaged):
    """A commit object is unreadable, or does not name the hash of the previous commit."""

    id = "OFF-1303"


class DamagedJar(Damaged):
    """A downloaded jar does not match its recorded checksum."""

    id = "OFF-1304"


class OldMessageFormat(Damaged):
    """A message set of magic 0 or 1 (before Kafka 0.11): never copied blindly."""

    id = "OFF-1305"


class DamagedArchive(Damaged):
    """A file of a foreign archive is cut, flipped, of an unknown version, or contradicts another file."""

    id = "OFF-1306"


class CommitsGone(Damaged):
    """The backup lacks a commit that was seen before: the store was put back to an older state, or the history was
    rewritten."""

    id = "OFF-1307"


class BackupFileDamaged(Damaged):
    """The backup file of a metastore, or its sidecar, differs from the written bytes."""

    id = "OFF-1308"


# -- Refused -----------------------------------------------------------------------------------------------------------


class OtherCluster(Refused):
    """The backup belongs to another cluster.id than the connected cluster's."""

    id = "OFF-1401"


class TargetNotEmpty(Refused):
    """A topic to restore into holds records that the restore did not write."""

    id = "OFF-1402"


class TargetMismatch(Refused):
    """The target topic exists with a shape (partitions, limits) that the restore cannot use."""

    id = "OFF-1403"


class ConfirmationMissing(Refused):
    """The plan was not confirmed, or no terminal was there to ask."""

    id = "OFF-1404"


class ProtectedTopic(Refused):
    """The topic is one into which a restore must never produce (`__consumer_offsets` and similar topics)."""

    id = "OFF-1405"


class RepositoryExists(Refused):
    """The place holds a repository already, or other files."""

    id = "OFF-1406"


class NoAuthorizer(Refused):
    """The cluster has no authorizer, and so keeps no ACLs."""

    id = "OFF-1420"


class KeylessRecord(Refused):
    """A record without a key belongs to no particular partition, and its order would be lost."""

    id = "OFF-1430"


class NotRepresentable(Refused):
    """A record holds something that the export format cannot represent."""

    id = "OFF-1440"


class OverwritingStore(Refused):
    """The store ignores the create-only condition of a put: a commit could overwrite another commit, and history would
    be lost."""

    id = "OFF-1450"


class NotCompacted(Refused):
    """A generation of topics without compaction cannot begin: their history would be lost with the previous
    generation."""

    id = "OFF-1466"


class GenerationRefused(Refused):
    """The generation is the one to restore from, is read, or is removed already, and cannot be deleted. Or the
    generation cannot begin, because foreign objects lie in its place."""

    id = "OFF-1465"


class IncarnationUnclear(Refused):
    """A topic was deleted and made again, and the backup cannot tell the incarnation of the requested time."""

    id = "OFF-1416"


class CheckpointIdUsed(Refused):
    """The id of a checkpoint, or a higher id, was used before: ids only rise, and are never reused."""

    id = "OFF-1470"


class CheckpointNeeded(Refused):
    """A checkpoint cannot be deleted: the checkpoint is in progress, the restore point is pinned, or a restore reads
    it."""

    id = "OFF-1471"


class ParticipantFailed(Refused):
    """A participant of a checkpoint failed, or was late: the checkpoint has failed."""

    id = "OFF-1472"


class ParticipantUnreachable(Refused):
    """A participant of a checkpoint could not be asked, or its answers prove nothing: the checkpoint has failed, and a
    part may have been saved."""

    id = "OFF-1473"


class ClocksDiffer(Refused):
    """The clocks of this machine and of the store are more than 5 minutes apart: nothing is deleted by age."""

    id = "OFF-1460"


class BelowFloor(Refused):
    """Retention would delete restore points protected by the floor."""

    id = "OFF-1461"


class ClockStep(Refused):
    """Retention would delete restore points by times confirmed only by a clock that may have jumped."""

    id = "OFF-1462"


class PlanChanged(Refused):
    """The present plan differs from the confirmed plan, or was never shown; nothing was done."""

    id = "OFF-1422"


class CommandsLost(Refused):
    """A command topic has lost commands of its backup file; the file was left unchanged."""

    id = "OFF-1490"


class BackupFileChanged(Refused):
    """Somebody else has written to a backup file of a metastore, or replaced the file."""

    id = "OFF-1491"


class TooManyJobs(Refused):
    """The maximum number of jobs is running; nothing was begun."""

    id = "OFF-1480"


class JobNotBegun(Refused):
    """The coordinator's machine could not start a process for a job. The job is reported as failed."""

    id = "OFF-1481"


class ExpiryNotDone(Refused):
    """A backup to be deleted is still read, copied, pinned, or undecided. The deletion is tried again."""

    id = "OFF-1492"


class BackupGoing(Refused):
    """The backup is about to be removed as a whole: no restore may begin."""

    id = "OFF-1496"


class ResourceImmutable(Refused):
    """An immutable field of a declared resource was changed; the declared state was left unchanged."""

    id = "OFF-1493"


class RestoreRefused(Refused):
    """Several checks before a restore said no; the message lists all of them."""

    id = "OFF-1421"


class SchemasRefused(Refused):
    """The schema registry of the target does not take the schemas of the backup as the restore needs them, or gives one
    of their ids another meaning than the restore found. No record was written since."""

    id = "OFF-1423"


# -- KafkaUnavailable --------------------------------------------------------------------------------------------------


class KafkaUnreachable(KafkaUnavailable):
    """No broker of the bootstrap list accepted a connection."""

    id = "OFF-1501"


class TokenEndpointUnavailable(KafkaUnreachable):
    """The token endpoint, the STS of AWS or the program of an AWS profile did not answer, or asked to come again later,
    and no token of before is valid any more."""

    id = "OFF-1509"


class KafkaTimeout(KafkaUnavailable):
    """A broker took the request and did not answer within `request.timeout.ms`."""

    id = "OFF-1502"


class LeaderUnavailable(KafkaUnavailable):
    """A partition had no leader within the time allowed."""

    id = "OFF-1503"


class KafkaProtocolError(KafkaUnavailable):
    """A broker answered with an error code, and a retry did not help."""

    id = "OFF-1504"


class SandboxFailed(KafkaUnavailable):
    """The sandbox broker did not come up; the message ends with its last log lines."""

    id = "OFF-1505"


class JarsNotFetched(KafkaUnavailable):
    """The sandbox's jars could not be fetched: no network, no mirror, or no client."""

    id = "OFF-1506"


class NoEvidence(KafkaUnavailable):
    """A leader gave no records and no evidence for their absence: the position stays."""

    id = "OFF-1507"


class RegistryUnavailable(KafkaUnavailable):
    """The schema registry did not answer, or asked to come again later, through all attempts."""

    id = "OFF-1510"


class KafkaTooOld(KafkaProtocolError):
    """The brokers lack a required request; the message names the request and the Kafka release that brought it."""

    id = "OFF-1508"


class ListenerNotReady(KafkaUnavailable):
    """A listener of a cluster of Strimzi, or the login of a user there, is not ready yet."""

    id = "OFF-1511"


# -- StoreUnavailable --------------------------------------------------------------------------------------------------


class StoreUnreachable(StoreUnavailable):
    """The store failed, or did not answer, through all retries."""

    id = "OFF-1601"


class StoreFull(StoreUnavailable):
    """The store has no room, or its quota is used up."""

    id = "OFF-1602"


class PutOutcomeUnknown(StoreUnavailable):
    """A put was sent, the answer was lost, and reading the key back failed as well."""

    id = "OFF-1603"


class ObjectArchived(StoreUnavailable):
    """A rule of the bucket has moved an object to an archive, from which the object must be restored before a read."""

    id = "OFF-1605"


class UnlistableName(StoreUnavailable):
    """Somebody has put an object into the bucket whose name has an empty part or a dot alone: no client lists past the
    object."""

    id = "OFF-1606"


class KubernetesUnavailable(StoreUnavailable):
    """The Kubernetes API did not answer, or answered with an error of its own."""

    id = "OFF-1604"


# -- Denied ------------------------------------------------------------------------------------------------------------


class KafkaAuthenticationFailed(Denied):
    """The cluster did not accept the login: user, password, token or certificate."""

    id = "OFF-1701"


class TokenRefused(KafkaAuthenticationFailed):
    """The token endpoint gave no token for this client: id, secret, assertion or scope; or it is no token endpoint."""

    id = "OFF-1706"


class RegistryDenied(Denied):
    """The schema registry refuses the login, or the login may not do what was asked."""

    id = "OFF-1707"


class KafkaNotAuthorized(Denied):
    """The cluster accepted the login and denies the operation."""

    id = "OFF-1702"


class KubernetesDenied(Denied):
    """The Kubernetes API did not accept the login, or denies the operation."""

    id = "OFF-1705"


class NotAllowed(Denied):
    """The caller is unknown, or may not do the operation; nothing was done."""

    id = "OFF-1704"


class StoreDenied(Denied):
    """The store did not accept the credentials, or denies the operation."""

    id = "OFF-1703"


# -- jobs --------------------------------------------------------------------------------------------------------------


class SparkFailed(OffsiteError):
    """The Spark job could not run (master unreachable, worker lost, executor without offsite)."""

    id = "OFF-0101"


class ExecutorDiffers(OffsiteError):
    """An executor of the Spark cluster has another version of offsite, or of Python: the executor got no task."""

    id = "OFF-0104"


class SecretStays(UserError):
    """A task would carry a password, a key or a token to a place where others can read it."""

    id = "OFF-0225"


class OpenSpark(UserError):
    """Anybody who reaches the ports of the Spark that would write into a cluster could send code."""

    id = "OFF-0229"


class StoreInClear(UserError):
    """Records, and credentials that go with requests, would cross a network unencrypted on the way to a store."""

    id = "OFF-0230"


class PartitionsFailed(OffsiteError):
    """Some partitions failed for good; the rest is done and the report lists both."""

    id = "OFF-0102"


class CheckpointNotTaken(OffsiteError):
    """The process of a checkpoint ended before every partition had started."""

    id = "OFF-0103"


class OutputNotWritten(OffsiteError):
    """The result of a command could not be written completely to standard output."""

    id = "OFF-0105"


class SourceTruncated(Refused):
    """A source partition no longer holds records that are already backed up: the history has changed."""

    id = "OFF-1408"


class TransactionLost(Conflict):
    """A replayed transaction of a restore was ended by others: the transaction timed out, or another writer took it
    over."""

    id = "OFF-1120"


def check(condition: bool, message: str) -> None:
    """Raise `Bug` unless `condition` holds. For offsite's invariants only, never for input from outside."""
    if not condition:
        raise Bug(message, hint="this is a bug in offsite: please report it with the command you ran")
