"""What can be set: settings, zoo.cfg and its keys, TLS material."""
