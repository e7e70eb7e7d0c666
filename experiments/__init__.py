"""The experiments behind the figures of docs/guides/results.md: see README.md here."""
