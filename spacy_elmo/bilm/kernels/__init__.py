"""Faster forms of the model's functions, one file each; choose.py chooses."""
