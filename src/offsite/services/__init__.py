"""Services for commands, an API or an operator: a room for every kind of use; shared parts lie here."""
