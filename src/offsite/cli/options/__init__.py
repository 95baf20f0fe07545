"""Options that commands share, and how they are made of what services declare."""
