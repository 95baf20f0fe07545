"""Collection: objects that a roll-up replaced are deleted."""
