"""The verbs of ``pyzk``. Each function is ``async def verb(context) -> exit status``."""
