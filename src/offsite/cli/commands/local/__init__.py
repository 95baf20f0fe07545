"""Commands that need no repository: what they work on lies on this machine."""
