"""Deliver: a scored run goes to each destination."""
