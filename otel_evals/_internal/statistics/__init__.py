"""Statistics of sampled scores. Pure functions."""
