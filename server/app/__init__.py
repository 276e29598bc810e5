"""What is put together of the rooms: the command ``pyzk-server``, and the servers inside tests."""
