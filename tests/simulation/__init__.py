"""A world for tests in which everything that can go wrong does, on a seed: the disk so far."""
