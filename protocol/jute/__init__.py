"""Jute, ZooKeeper's record encoding (wire.md section 2), compiled from declarations.

A record is a class whose annotations are jute types (:mod:`.types`). ``@record`` adds slots to the class, and
compiles an initializer, an encoder and a decoder for the class. Each of these functions is compiled at its
first use (:mod:`.compile`). Only the modules of this folder decide how booleans, nulls and malformed strings
are read. Decoding malformed input raises
:class:`JuteError` and nothing else. Bytes after the last field are ignored.

From this declaration::

    @record
    class ExistsRequest(Record):
        path: UString
        watch: Boolean

the compiler makes these functions. ``pack_i``, ``pack_B`` and ``unpack_i`` are methods of a
:class:`struct.Struct`::

    def encode(self):
        path = self.path
        path_bytes = b'' if path is None else encode_text(path)
        path_size = -1 if path is None else len(path_bytes)
        return b''.join((pack_i(path_size), path_bytes, pack_B(1 if self.watch else 0),))

    def read(cls, data, pos=0):
        try:
            path_size, = unpack_i(data, pos)
            pos += 4
            if path_size >= 0: path = data[pos:(pos := pos + path_size)].decode('utf-8', 'pyzk.malformed')
            elif path_size == -1: path = None
            else: raise JuteError('a length is negative')
            watch = data[pos]
            pos += 1
            return (ExistsRequest(path, watch != 0), pos)
        except TooShort: raise JuteError('the message ends too early') from None

The elements of a vector are encoded and read by a loop. ``GetChildrenResponse``, which has the field
``children: Vector[UString]``, gives::

    def encode(self):
        children = self.children
        children_bytes = b'' if children is None else b''.join([encode_element(each) for each in children])
        children_size = -1 if children is None else len(children)
        return b''.join((pack_i(children_size), children_bytes,))

    def read(cls, data, pos=0):
        try:
            children_size, = unpack_i(data, pos)
            pos += 4
            children, pos = read_vector(data, pos, children_size)
            return (GetChildrenResponse(children), pos)
        except TooShort: raise JuteError('the message ends too early') from None

:func:`generated` returns the source for any record.
"""

from .compile import fields_reader, frozen_record, generated, record
from .types import Boolean, Buffer, Int, Long, Record, Text, UString, Vector, fields_of
from .values import MALFORMED, JuteError, encode_text

__all__ = [
    "MALFORMED",
    "Boolean",
    "Buffer",
    "Int",
    "JuteError",
    "Long",
    "Record",
    "Text",
    "UString",
    "Vector",
    "encode_text",
    "fields_of",
    "fields_reader",
    "frozen_record",
    "generated",
    "record",
]
