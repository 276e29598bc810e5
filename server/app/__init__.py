"""The programs that use all packages: the command ``pyzk-server``, and the servers inside tests."""
