"""`/api/v1`: the commands over HTTP, with the documents of `-o json`."""
