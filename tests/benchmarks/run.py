# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure, print the figures beside their targets, and keep them in build/bench.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

import figures  # noqa: E402
import health_of_hosts  # noqa: E402
import kernel_log_scan  # noqa: E402
import preflight_of_hosts  # noqa: E402
import site_second_run  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log-bytes", type=int, default=10**9)
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--only", choices=("kernel_log", "health", "preflight", "site"))
    parser.add_argument("--nodes", type=int, default=50, help="of the preflight")
    parser.add_argument("--burn-seconds", type=int, default=600, help="real time; shorter ones say less of many nodes against one")
    parser.add_argument("--strict", action="store_true", help="end with status 1 where a target is missed")
    options = parser.parse_args()
    found: t.List[figures.Figure] = []
    if options.only in (None, "kernel_log"):
        found += show(kernel_log_scan.measure(ROOT, options.log_bytes))
    if options.only in (None, "health"):
        found += show(health_of_hosts.measure(ROOT, options.hosts))
    if options.only in (None, "preflight"):
        found += show(preflight_of_hosts.measure(ROOT, options.nodes, options.burn_seconds))
    if options.only in (None, "site"):
        found += show(site_second_run.measure(ROOT))
    report = ROOT / "build/bench.json"
    report.parent.mkdir(exist_ok=True)
    report.write_text(json.dumps({"machine": machine(), "figures": [as_dict(figure) for figure in found]}, indent=2) + "\n")
    missed = [figure.name for figure in found if not figure.met]
    print("%d of %d targets met; %s" % (len(found) - len(missed), len(found), report.relative_to(ROOT)))
    return 1 if missed and options.strict else 0


def show(measured: t.Iterable[figures.Figure]) -> t.Iterator[figures.Figure]:
    for figure in measured:
        answer = "met" if figure.met else "MISSED"
        print("%-56s %8.2f %-4s target %-8s %s" % (figure.name, figure.value, figure.unit, figure.target, answer), flush=True)
        yield figure


def as_dict(figure: figures.Figure) -> t.Dict[str, t.Any]:
    return {**vars(figure), "value": round(figure.value, 3), "met": figure.met}


def machine() -> t.Dict[str, t.Any]:
    return {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}


if __name__ == "__main__":
    sys.exit(main())
