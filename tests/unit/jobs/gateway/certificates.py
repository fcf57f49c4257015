"""The certificates of a gateway: of its own, and renewed ones."""


def own_certificate(authority):
    """Return the settings of a gateway with a certificate for this machine."""
    own = authority.sign("gateway", "127.0.0.1")
    return {"ssl_certificate_location": str(own.path), "ssl_key_location": str(own.key)}


def relink(path, target):
    """Have a link name another file, as Kubernetes renews certificates."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)
