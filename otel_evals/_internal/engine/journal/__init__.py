"""The journal: what was accepted and is not scored and delivered yet survives the process."""
