"""Roll-up: small segments are replaced by large segments with the same records."""
