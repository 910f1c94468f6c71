"""The kit to write scorers: `Scorer`, `@scorer`, steps, prompts, panels."""
