"""Conversations: runs wait until their conversation is idle and are then judged as one run."""
