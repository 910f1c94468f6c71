"""Coverage of the monitor's intervals, rate of false alarms, and delay until a fall is found.

    python benchmarks/monitoring.py [SECTION ...] [--scale 0.1] [--write]

Simulates traffic with known means, samples it, and asks `otel_evals.statistics` what it makes of the
sample. Prints a table for each section; `--scale` multiplies the numbers of repetitions, and `--write` puts
the tables of the full numbers into docs/statistics.md, where it has a place for them. The section `airline`
reads airline.jsonl from the folder OTEL_EVALS_TRAFFIC. All draws have fixed seeds. The columns `expected`
hold what another simulation of the same methods gave when they were chosen.
`tests/unit/statistics/test_simulations.py` runs a short form.
"""

from __future__ import annotations

import argparse
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

from simulations.airline import airline
from simulations.alarms import floors, live, monitors, references, small, wanderings
from simulations.dependence import conversations, counted, incomplete
from simulations.versions import versions
from simulations.windows import closed, unscaled

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
SECTIONS = {
    "closed": closed,
    "unscaled": unscaled,
    "conversations": conversations,
    "counted": counted,
    "incomplete": incomplete,
    "live": live,
    "floors": floors,
    "wandering": wanderings,
    "references": references,
    "small": small,
    "monitors": monitors,
    "versions": versions,
    "airline": airline,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    # Without arguments, argparse compares the empty list with the choices.
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all of them by default")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of repetitions")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/statistics.md")
    options = parser.parse_args()
    if options.write and options.scale != 1.0:
        parser.error("--write needs --scale 1: the page states the full numbers of repetitions")
    for name in options.sections or SECTIONS:
        print(f"\n## {SECTIONS[name].__doc__}", flush=True)
        if not options.write:
            SECTIONS[name](options.scale)
            continue
        with redirect_stdout(io.StringIO()) as printed:
            SECTIONS[name](options.scale)
        print(printed.getvalue())
        write(name, printed.getvalue())


def write(name: str, tables: str) -> None:
    """Put a section's tables into the page, between the marks that have its name."""
    page = PAGE.read_text(encoding="utf-8")
    place = re.compile(f"(<!-- {name} -->).*?(<!-- /{name} -->)", re.S)
    PAGE.write_text(place.sub(lambda m: f"{m[1]}\n\n{tables.strip()}\n\n{m[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
