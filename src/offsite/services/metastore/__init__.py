"""The metastore of ksqlDB, or any log of commands in one partition, kept as local files and brought back."""
