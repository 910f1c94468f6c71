"""Redaction: removes secrets and personal data from every text that leaves the process."""
