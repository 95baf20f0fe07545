"""The one error tree of offsite.

Kinds say what the caller should do; leaves say what happened. Each leaf has a stable `id` (never reused), the exit
code of its kind, and takes a `hint` that names the next command or action.

    OffsiteError
    |-- UserError         2   the request or the configuration is wrong; nothing was done
    |-- NoRepository     10   there is no such repository or backup
    |-- Conflict         11   another writer was first: re-read, then decide
    |-- Damaged          13   stored or received bytes are not what was written
    |-- Refused          14   a guard said no; nothing was changed
    |-- KafkaUnavailable 15   the cluster did not answer: try again later
    |-- StoreUnavailable 16   the store did not answer: try again later
    |-- Denied           17   authentication or authorisation failed
    `-- Bug               1   an invariant of offsite itself does not hold

Third-party errors are wrapped where they appear (the adapters), chained with `from`. Exit code 3 (finished with holes)
is a result, not an error.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar


class OffsiteError(Exception):
    """Base of every error that a person may see. `hint` is the next thing to do, or empty."""

    id: ClassVar[str] = "OFF-0001"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Errors cross process borders (Spark workers), so they pickle with their hint."""
        return _rebuild, (type(self), self.message, self.hint)


ErrorT = TypeVar("ErrorT", bound=OffsiteError)


def _rebuild(kind: type[ErrorT], message: str, hint: str) -> ErrorT:
    return kind(message, hint=hint)


class UserError(OffsiteError):
    """The request or the configuration is wrong; nothing was done."""

    id = "OFF-0200"
    exit_code = 2


class NoRepository(OffsiteError):
    """There is no such repository or backup."""

    id = "OFF-1000"
    exit_code = 10


class Conflict(OffsiteError):
    """Another writer was first: re-read, then decide."""

    id = "OFF-1100"
    exit_code = 11


class Damaged(OffsiteError):
    """Stored or received bytes are not what was written."""

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
    """A backup, topic or other name holds characters that could leave its place in the repository."""

    id = "OFF-0201"


class BadOption(UserError):
    """An option's value cannot be read or contradicts another one."""

    id = "OFF-0202"


class NoSuchTopic(UserError):
    """A literally named topic does not exist, or a selection matches nothing."""

    id = "OFF-0203"


class BadKafkaConfig(UserError):
    """A client.properties file or one of its values cannot be used."""

    id = "OFF-0204"


class BadRepositoryUrl(UserError):
    """The text names no folder and no supported object store, or holds what a URL may not hold."""

    id = "OFF-0205"


class JavaMissing(UserError):
    """No Java runtime was found, or one too old for Spark or Kafka."""

    id = "OFF-0206"


class BackupExists(UserError):
    """The backup exists with another source or selection than the one asked for, or was removed lately."""

    id = "OFF-0207"


class NoSuchRestorePoint(UserError):
    """The backup has no commit of that number, or none at or before that time."""

    id = "OFF-0208"


class NoConsistentCut(UserError):
    """A restore was to go to the consistent cut of a restore point, and there is none, or none that may be used."""

    id = "OFF-0216"


class NoSuchRestore(UserError):
    """The backup has no restore, or no change of groups, of that id."""

    id = "OFF-0209"


class ArchiveNotFound(UserError):
    """The place holds no archive of that format."""

    id = "OFF-0210"


class UnfitArchive(UserError):
    """A file of an archive is whole, and laid out otherwise than its format wants: unsorted, or with other fields."""

    id = "OFF-0237"


class GenerationsDiffer(UserError):
    """The generations of that name were begun with other topics, or another place, than the ones asked for."""

    id = "OFF-0215"


class NoCommandTopic(UserError):
    """A topic has more than one partition, so its commands have no order."""

    id = "OFF-0217"


class BadResource(UserError):
    """A declared resource holds a field that there is not, lacks one, or has a value that it may not have."""

    id = "OFF-0218"


class AccountClosed(BadResource):
    """An account is for other namespaces than that of the resource."""

    id = "OFF-0231"


class ClusterClosed(BadResource):
    """A cluster of the operator's is for other namespaces than that of the resource."""

    id = "OFF-0232"


class FolderCopied(UserError):
    """The folder of an operator is a copy, with the identities of the resources of another one; nothing was done."""

    id = "OFF-0219"


class BadSparkArchive(UserError):
    """The archive for the executors of a Spark cluster cannot be made here, or is of another offsite or Python than
    this one."""

    id = "OFF-0220"


# -- NoRepository ------------------------------------------------------------------------------------------------------


class RepositoryNotFound(NoRepository):
    """The folder or prefix holds no repository: there is no `offsite.json`."""

    id = "OFF-1001"


class BackupNotFound(NoRepository):
    """The repository holds no backup of that name."""

    id = "OFF-1002"


class JobNotFound(NoRepository):
    """There is no job of this id in the repository."""

    id = "OFF-1004"


class ResourceNotFound(NoRepository):
    """No resource of that kind and name is declared, or known."""

    id = "OFF-1005"


class FormatTooNew(NoRepository):
    """The repository was written by a newer offsite than this one."""

    id = "OFF-1003"


# -- Conflict ----------------------------------------------------------------------------------------------------------


class CommitLost(Conflict):
    """Another writer took the commit number; its content differs from ours."""

    id = "OFF-1101"


class ObjectTaken(Conflict):
    """A new object's name already holds other bytes; they were left alone."""

    id = "OFF-1102"


class TopicReplaced(Conflict):
    """The topic was deleted and made anew since the plan, or since it was exported: another one under the same name."""

    id = "OFF-1103"


class ArchiveBusy(Conflict):
    """Another process exports into the same archive, or did while this one wrote: nothing of this run counts."""

    id = "OFF-1104"


class WriterFenced(Conflict):
    """A newer attempt at the same partition has begun: the brokers take nothing more from this one."""

    id = "OFF-1131"


class RestoreRunning(Conflict):
    """Another process carries out this restore, or one into the same topics, and is alive."""

    id = "OFF-1132"


class RestoreTakenOver(Conflict):
    """Another process has taken this restore over: this one has stopped, and changes nothing more."""

    id = "OFF-1133"


class GenerationTakenOver(Conflict):
    """Another process runs this instance of the generations by now: this one has stopped, and writes nothing more."""

    id = "OFF-1135"


class RequestRepeated(Conflict):
    """The word that tells a repeated request was used for another request before; nothing was done."""

    id = "OFF-1136"


class ResourceConflict(Conflict):
    """The name of a backup, or of an object in Kubernetes, belongs to another declared resource."""

    id = "OFF-1138"


class TargetDisturbed(Conflict):
    """Two attempts of one restore wrote at the same time: the target holds some of its records twice."""

    id = "OFF-1134"


class BackupFileInUse(Conflict):
    """Another process writes the backup files of this topic in this folder."""

    id = "OFF-1137"


# -- Damaged -----------------------------------------------------------------------------------------------------------


class DamagedBatch(Damaged):
    """A RecordBatch is cut, has a wrong CRC32C, an unknown magic, or offsets that go backwards."""

    id = "OFF-1301"


class DamagedObject(Damaged):
    """An object of the repository is missing, cut, or does not have its recorded hash."""

    id = "OFF-1302"


class DamagedCommit(Damaged):
    """A commit object is unreadable or does not name the hash of the one before it."""

    id = "OFF-1303"


class DamagedJar(Damaged):
    """A downloaded jar does not have its recorded checksum."""

    id = "OFF-1304"


class OldMessageFormat(Damaged):
    """A message set of magic 0 or 1 (before Kafka 0.11), which is never copied blindly."""

    id = "OFF-1305"


class DamagedArchive(Damaged):
    """A file of a foreign archive is cut, flipped, of an unknown version, or contradicts another one."""

    id = "OFF-1306"


class CommitsGone(Damaged):
    """The backup does not hold a commit that was seen before: its store was put back to an older state, or its history
    was written anew."""

    id = "OFF-1307"


class BackupFileDamaged(Damaged):
    """The backup file of a metastore, or its sidecar, is not what was written."""

    id = "OFF-1308"


# -- Refused -----------------------------------------------------------------------------------------------------------


class OtherCluster(Refused):
    """The backup belongs to another cluster.id than the one connected to."""

    id = "OFF-1401"


class TargetNotEmpty(Refused):
    """A topic to restore into holds records that this restore did not write."""

    id = "OFF-1402"


class TargetMismatch(Refused):
    """The target topic exists with a shape (partitions, limits) that the restore cannot use."""

    id = "OFF-1403"


class ConfirmationMissing(Refused):
    """The plan was not confirmed, or there was no terminal to ask on."""

    id = "OFF-1404"


class ProtectedTopic(Refused):
    """The topic is one that restore must never produce into (`__consumer_offsets` and its like)."""

    id = "OFF-1405"


class RepositoryExists(Refused):
    """There is a repository already, or other files are in its place."""

    id = "OFF-1406"


class NoAuthorizer(Refused):
    """The cluster has no authorizer, so it keeps no ACLs."""

    id = "OFF-1420"


class KeylessRecord(Refused):
    """A record without a key belongs to no partition in particular, and its order would be lost."""

    id = "OFF-1430"


class NotRepresentable(Refused):
    """A record holds something that the format to export to has no place for."""

    id = "OFF-1440"


class OverwritingStore(Refused):
    """The store ignores that a put is create-only: a commit could overwrite another one, and history would be lost."""

    id = "OFF-1450"


class NotCompacted(Refused):
    """A generation of topics that are not compacted cannot begin: their history would go with the one before."""

    id = "OFF-1466"


class GenerationRefused(Refused):
    """The generation is the one to restore from, is read, or is removed already: it cannot be let go. Or it cannot
    begin: something that is not of it lies in its place."""

    id = "OFF-1465"


class IncarnationUnclear(Refused):
    """A topic was deleted and made anew, and the backup cannot tell which one lived at the time that was asked for."""

    id = "OFF-1416"


class CheckpointIdUsed(Refused):
    """The id of a checkpoint was used before, or a higher one was: ids only rise, and each is used once."""

    id = "OFF-1470"


class CheckpointNeeded(Refused):
    """A checkpoint cannot be deleted: it is being taken, its restore point is pinned, or a restore reads it."""

    id = "OFF-1471"


class ParticipantFailed(Refused):
    """A participant of a checkpoint did not do its part, or not in time: the checkpoint has failed."""

    id = "OFF-1472"


class ParticipantUnreachable(Refused):
    """A participant of a checkpoint could not be asked, or its answers say nothing for certain: the checkpoint has
    failed, and a part of it may have been saved."""

    id = "OFF-1473"


class ClocksDiffer(Refused):
    """The clock of this machine and that of the store are more than 5 minutes apart: nothing is deleted by its age."""

    id = "OFF-1460"


class BelowFloor(Refused):
    """Retention would drop restore points that its floor protects."""

    id = "OFF-1461"


class ClockStep(Refused):
    """Retention would drop restore points by times that nothing but a clock that may have jumped speaks for."""

    id = "OFF-1462"


class PlanChanged(Refused):
    """What is to be done is not what was confirmed any more, or was never shown; nothing was done."""

    id = "OFF-1422"


class CommandsLost(Refused):
    """A command topic has lost commands that its backup file holds; the file was left as it is."""

    id = "OFF-1490"


class BackupFileChanged(Refused):
    """Somebody else has written to a backup file of a metastore, or put another in its place."""

    id = "OFF-1491"


class TooManyJobs(Refused):
    """As many jobs run here as may run at once; nothing was begun."""

    id = "OFF-1480"


class JobNotBegun(Refused):
    """The machine of the coordinator could not begin a process for a job. The job is told to have failed."""

    id = "OFF-1481"


class ExpiryNotDone(Refused):
    """A backup that is to be deleted is still read, copied, pinned, or decided about. It is tried again."""

    id = "OFF-1492"


class BackupGoing(Refused):
    """The backup is about to be removed as a whole: nobody begins to restore from it."""

    id = "OFF-1496"


class ResourceImmutable(Refused):
    """A field of a declared resource may not change any more; what is declared was left as it is."""

    id = "OFF-1493"


class RestoreRefused(Refused):
    """Several checks before a restore said no; the message lists all of them."""

    id = "OFF-1421"


# -- KafkaUnavailable --------------------------------------------------------------------------------------------------


class KafkaUnreachable(KafkaUnavailable):
    """No broker of the bootstrap list could be connected to."""

    id = "OFF-1501"


class KafkaTimeout(KafkaUnavailable):
    """A broker took the request and did not answer within `request.timeout.ms`."""

    id = "OFF-1502"


class LeaderUnavailable(KafkaUnavailable):
    """A partition had no leader within the time allowed."""

    id = "OFF-1503"


class KafkaProtocolError(KafkaUnavailable):
    """A broker answered with an error code that a retry did not cure."""

    id = "OFF-1504"


class SandboxFailed(KafkaUnavailable):
    """The sandbox broker did not come up; the message ends with its last log lines."""

    id = "OFF-1505"


class JarsNotFetched(KafkaUnavailable):
    """The sandbox's jars could not be fetched: no network, no mirror, or no client to fetch them with."""

    id = "OFF-1506"


class NoEvidence(KafkaUnavailable):
    """A leader gave no records and nothing that shows that there are none: the position stays where it is."""

    id = "OFF-1507"


class KafkaTooOld(KafkaProtocolError):
    """The brokers lack a request that this needs; the message names it and the Kafka release that brought it."""

    id = "OFF-1508"


# -- StoreUnavailable --------------------------------------------------------------------------------------------------


class StoreUnreachable(StoreUnavailable):
    """The store failed, or did not answer, through all retries."""

    id = "OFF-1601"


class StoreFull(StoreUnavailable):
    """The store has no room, or its quota is used up."""

    id = "OFF-1602"


class PutOutcomeUnknown(StoreUnavailable):
    """A put was sent, its answer was lost, and reading the key back failed as well."""

    id = "OFF-1603"


class ObjectArchived(StoreUnavailable):
    """A rule of the bucket has moved an object to an archive, from which it has to be brought back to be read."""

    id = "OFF-1605"


class UnlistableName(StoreUnavailable):
    """Somebody has put an object there whose name has an empty part or a dot alone: no client lists past it."""

    id = "OFF-1606"


class KubernetesUnavailable(StoreUnavailable):
    """The API of Kubernetes did not answer, or with an error of its own."""

    id = "OFF-1604"


# -- Denied ------------------------------------------------------------------------------------------------------------


class KafkaAuthenticationFailed(Denied):
    """The cluster did not accept who we are: user, password, token or certificate."""

    id = "OFF-1701"


class KafkaNotAuthorized(Denied):
    """The cluster knows who we are and does not let us do that."""

    id = "OFF-1702"


class KubernetesDenied(Denied):
    """The API of Kubernetes does not know us, or does not let us do that."""

    id = "OFF-1705"


class NotAllowed(Denied):
    """Whoever asks is not known, or may not do this; nothing was done."""

    id = "OFF-1704"


class StoreDenied(Denied):
    """The store did not accept the credentials, or does not let them do that."""

    id = "OFF-1703"


# -- jobs --------------------------------------------------------------------------------------------------------------


class SparkFailed(OffsiteError):
    """The Spark job could not run (master unreachable, worker lost, executor without offsite)."""

    id = "OFF-0101"


class ExecutorDiffers(OffsiteError):
    """An executor of the Spark cluster has another version of offsite, or of Python: it was given nothing to do."""

    id = "OFF-0104"


class SecretStays(UserError):
    """A task would carry a password, a key or a token to where others can read it."""

    id = "OFF-0225"


class OpenSpark(UserError):
    """Anybody who reaches the ports of the Spark that is to write into a cluster could send it code."""

    id = "OFF-0229"


class StoreInClear(UserError):
    """Records, and credentials that go with requests, would cross a network unencrypted on the way to a store."""

    id = "OFF-0230"


class PartitionsFailed(OffsiteError):
    """Some partitions failed for good; the others are done and the report lists both."""

    id = "OFF-0102"


class CheckpointNotTaken(OffsiteError):
    """The process that was to take a checkpoint ended before every partition had started."""

    id = "OFF-0103"


class OutputNotWritten(OffsiteError):
    """The result of a command could not be written to standard output: what stands there is not all of it."""

    id = "OFF-0105"


class SourceTruncated(Refused):
    """A source partition no longer holds what is already backed up of it: its history has changed."""

    id = "OFF-1408"


class TransactionLost(Conflict):
    """A transaction that a restore replays was ended by others: its time ran out, or another writer took it over."""

    id = "OFF-1120"
