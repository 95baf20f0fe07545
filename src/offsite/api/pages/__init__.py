"""The pages of a coordinator: made on the server, without anything from elsewhere, and usable without JavaScript."""
