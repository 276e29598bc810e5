"""What ``pyzk`` does, verb by verb. Each is ``async def verb(context) -> exit status``."""
