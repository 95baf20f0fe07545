"""The command line: a file per noun in `commands`; shared parts lie here."""
