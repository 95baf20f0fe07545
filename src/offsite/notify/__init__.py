"""Tells people and programs what happened: hooks, messages, pings. Never decides, delays or fails what it tells of."""
