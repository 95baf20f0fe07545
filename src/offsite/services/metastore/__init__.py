"""The metastore of ksqlDB, or any log of commands in one partition: backed up into local files, and restored."""
