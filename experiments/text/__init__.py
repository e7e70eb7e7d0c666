"""The text that the shipped language models read, built from public pinned sources."""
