"""What a command, an API or an operator asks for: a room for each kind of use; what several of them need lies here."""
