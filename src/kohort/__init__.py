"""A Kafka group coordinator in Python, and an audit of what it persists.

In the repository this folder holds links to the packages at the top level; a wheel holds the packages themselves.
"""
