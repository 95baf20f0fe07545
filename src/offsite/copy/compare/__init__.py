"""Both ends read again and compared: record by record, in step, and by the key where partitions mix."""
