"""`/api/v1`: what the commands do, with the documents that `-o json` prints."""
