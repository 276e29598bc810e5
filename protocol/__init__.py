"""The protocol of both sides: records, framing, error codes, path rules.

This package does no I/O, reads no clock, and keeps no state except buffers of bytes. It imports no other
package of pyzk.
"""
