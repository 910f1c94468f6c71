"""Statistics of sampled scores: means with intervals that hold, and alarms whose false-alarm rate is known.

Everything is computed from sums that merge by addition (`sums`, `clusters`, `rollup`). A closed time window
gets a mean with a confidence interval (`estimate`) and bounds for what is missing (`bounds`); what is watched
live gets a band and evidence that may be looked at as often as one likes (`eprocess`), and alarms
(`detectors`, `multiple`). Versions are compared by `compare`; a judge's mean is corrected by labels in
`correction`.

Nothing here reads, writes or needs more than the standard library.
"""
