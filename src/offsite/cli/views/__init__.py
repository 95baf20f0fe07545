"""Results as tables and sentences for a terminal, where several commands show the same."""
