"""Archives of TrivadisPF/kafka-backup, as its connectors wrote them; read only."""

from offsite.archives.trivadis.reader import TrivadisReader

__all__ = ["TrivadisReader"]
