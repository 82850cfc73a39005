"""The controls of a broker under test as JSON over HTTP, for tests in other languages than Python.

Each control calls what a Python test would call (kohort.testing.Broker); none has a way of its own into the broker.
docs/test-control.openapi.yaml describes them. In this order:

    controls.py       path by path: what is asked, and what is answered
    ask.py, shapes.py   from JSON, to JSON
    control_site.py   who may ask, and how a refusal is told
"""
