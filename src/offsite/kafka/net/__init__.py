"""Connections to brokers: sockets, TLS, logins, which broker to ask, and waiting between attempts."""
