"""Attacks on the package, beside its tests and not in the wheel: see README.md."""
