"""Worlds for tests in which everything that can go wrong does, on a seed: a disk; a coordinator and its clients."""
