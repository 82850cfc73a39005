"""The HTTP port: metrics for Prometheus, and what else is to be had by HTTP.

`site.py` says which handler answers which path, `endpoint.py` speaks HTTP/1.1 with h11, the field's own library for it.
Nothing here is imported unless the port is open.
"""
