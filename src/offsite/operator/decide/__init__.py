"""What an operator does next, decided from what is declared and what was seen. Pure."""
