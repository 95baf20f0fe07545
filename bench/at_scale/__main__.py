"""`python -m bench.at_scale [--measured FILE]`: measure unit costs, keep them, and say what a petabyte would take.

Four minutes, with a broker of its own. With `--measured` nothing is measured: FILE holds costs of an earlier run, which
are kept instead. `make scale` does the same, and writes docs/explanation/scale.md and its picture anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.at_scale.costs import KEPT, read_costs
from bench.at_scale.measure import measure
from bench.at_scale.page import section
from bench.at_scale.results import results_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, metavar="FILE", help="costs of an earlier run")
    options = parser.parse_args()
    costs = read_costs(options.measured) if options.measured else measure()
    costs.write(KEPT)
    print(section(results_of(costs)))


if __name__ == "__main__":
    main()
