"""The pipeline: wires the steps and owns the thread they run on."""
