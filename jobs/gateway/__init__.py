"""The gateway as a server: sockets, TLS, and the requests for decisions."""
