"""The commands of the monitor: `demo`, `export`, `monitor`, `report` and `results`."""
