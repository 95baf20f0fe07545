"""Shared options of commands, and their construction from declarations of services."""
