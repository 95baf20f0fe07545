"""Connections to brokers: sockets, TLS, logins, routing, and waits between attempts."""
