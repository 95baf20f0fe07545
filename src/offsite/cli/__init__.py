"""The command line: one file per noun in `commands`; what they share lies here."""
