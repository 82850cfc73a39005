"""The controls of a broker under test as JSON over HTTP, for tests in other languages than Python.

Each control calls what a Python test would call (kohort.testing.Broker); none has a way of its own into the broker.
docs/test-control.openapi.yaml describes them. In this order:

    controls.py       the controls, path by path
    ask.py, shapes.py   how requests are read from JSON, and answers written as JSON
    control_site.py   which requests are refused, and how
"""
