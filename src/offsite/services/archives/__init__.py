"""Foreign archives: looked into, imported, exported."""
