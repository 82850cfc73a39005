"""Small consumers with a mistake, the same consumers without it, and the test that tells them apart.

docs/consumer-mistakes.md is made of these files: `python -m tests.testing.mistakes.page` writes it.
"""
