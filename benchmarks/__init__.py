"""Benchmarks, run from a clone of the repository: see README.md."""
