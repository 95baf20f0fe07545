"""The pages of a coordinator: rendered on the server, without foreign content, and usable without JavaScript."""
