"""The control API: what a test can do to the server, over HTTP, for any language."""
