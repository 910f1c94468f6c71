"""Span conventions, one module each, mostly tables of attribute names. Found through entry points."""
