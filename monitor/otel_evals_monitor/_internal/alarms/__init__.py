"""Alarms of a results store: monitors, the record of alarms, and receivers of notifications."""
