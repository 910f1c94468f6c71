"""Decorators and context managers that write GenAI spans for agents written without a framework."""
