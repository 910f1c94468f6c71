"""Small helpers that know nothing of scoring: calling users' functions, forks, plain values, retries."""
