"""The records that pass through the pipeline, from span to score.

All are frozen. Ids are lower-case hex (32 digits for a trace, 16 for a span), times are nanoseconds since
the Unix epoch, durations are seconds.
"""

# The public ones are listed in `otel_evals.model`.
from otel_evals._internal.model.evaluations import *  # noqa: F403
from otel_evals._internal.model.media import *  # noqa: F403
from otel_evals._internal.model.operations import *  # noqa: F403
from otel_evals._internal.model.runs import *  # noqa: F403
from otel_evals._internal.model.spans import *  # noqa: F403
