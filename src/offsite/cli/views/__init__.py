"""Results as tables and sentences for a terminal, shared by several commands."""
