"""The experiments behind the figures of the project's README: see README.md here."""
