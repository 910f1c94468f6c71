"""Readers of attributes, messages, tool calls and documents, shared by all conventions."""
