"""The packages put together: the command ``pyzk-server``, and the servers inside tests."""
