"""The protocol of both sides: records, framing, error codes, path rules.

No I/O, no clock, no state beyond a buffer of bytes. Imports nothing else of pyzk.
"""
