"""Alarms on a results store: monitors that share one budget of false alarms, their record, and webhooks."""
