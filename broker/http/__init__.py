"""The HTTP port: metrics for Prometheus, and with `kohort serve --test` the controls of the test kit.

`site.py` says which handler answers which path, `endpoint.py` speaks HTTP/1.1 with h11. Nothing here is imported unless
the port is open.
"""
