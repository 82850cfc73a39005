"""Writes protocol/messages/: a decoder and an encoder for each API and version, from kafka-python's schemas.

Run by `make generate`, never by the broker: importing kafka-python takes longer than the whole start-up may. A test
runs it again and compares, so what is committed cannot drift from the schemas.

    schema.py       kafka-python's schema tree, and ours in protocol/schemas/, as one small model
    lines.py        source text under construction: indentation, struct formats in use
    classes.py      a class of slots for each message and each struct in it
    decoder.py      bytes -> message
    encoder.py      message -> bytes
    module.py       one module for each API, one for each kind of log record
"""
