"""Archives of TrivadisPF/kafka-backup, as written by the tool's connectors; read only."""

from offsite.archives.trivadis.reader import TrivadisReader

__all__ = ["TrivadisReader"]
