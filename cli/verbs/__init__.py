"""The verbs of ``pyzk``. Each is ``async def verb(context) -> exit status``."""
