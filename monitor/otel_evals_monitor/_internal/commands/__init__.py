"""The commands of the monitor: `demo`, `export`, `labels`, `monitor`, `report` and `results`."""
