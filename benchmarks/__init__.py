"""Measurements, and what is measured against. Nothing else imports these."""
