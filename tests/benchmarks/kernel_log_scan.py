# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast a large kernel log is searched, against grep, which does nothing else, and against a plain loop over its lines."""

from __future__ import annotations

import os
import sys
import typing as t
from pathlib import Path

from ansible_collections.kentino.gpu.plugins.module_utils._parse import kernel_log

import figures
import kernel_log_file

ROUNDS = 5
_SCAN = """
import sys
sys.path.insert(0, %r)
from plugins.module_utils._probe import log_file
reading = log_file.scan(sys.argv[1], 600)
assert reading.error is None, reading.error
print(len(reading.lines))
"""
# What one writes without thinking about it: one search a line, for all words at once.
_LOOP = """
import re, sys
search = re.compile(b"|".join(re.escape(needle.encode()) for needle in sys.argv[2:])).search
with open(sys.argv[1], "rb") as log:
    print(sum(1 for line in log if search(line)))
"""


def measure(root: Path, size_bytes: int) -> t.Iterator[figures.Figure]:
    path = root / "build/bench/kernel.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    of_interest = kernel_log_file.write(path, size_bytes, kernel_log.NEEDLES)
    words = [needle.decode("ascii") for needle in kernel_log.NEEDLES]
    environment = dict(os.environ, LC_ALL="C")

    def scan() -> figures.Run:
        done = figures.run([sys.executable, "-IS", "-c", _SCAN % str(root), str(path)])
        # The lines behind a line of interest are kept too, as its context.
        if int(done.output) < of_interest:
            raise figures.BenchmarkError("scan kept %s lines, %d are of interest" % (done.output.strip(), of_interest))
        return done

    def grep() -> figures.Run:
        argv = ["grep", "-cF", *(part for word in words for part in ("-e", word)), "--", str(path)]
        return _counted(figures.run(argv, environment), of_interest)

    def loop() -> figures.Run:
        return _counted(figures.run([sys.executable, "-IS", "-c", _LOOP, str(path), *words]), of_interest)

    grep()  # the file is in memory for all of them
    runs = figures.in_turn(ROUNDS, scan=scan, grep=grep)
    loops = [loop()]
    path.unlink()
    size = "%.1f GB kernel log" % (size_bytes / 1e9)
    seen = {"scan_seconds": figures.seconds(runs["scan"]), "grep_seconds": figures.seconds(runs["grep"])}
    ours = figures.median_seconds(runs["scan"])
    yield figures.Figure(size + ": time of scan / grep -cF", ours / figures.median_seconds(runs["grep"]), "x", "<= 1.5", seen)
    seen = {"scan_seconds": figures.seconds(runs["scan"]), "loop_seconds": figures.seconds(loops)}
    yield figures.Figure(size + ": time of a loop over lines / scan", figures.median_seconds(loops) / ours, "x", ">= 10", seen)
    peaks = [round(one.peak_mib, 1) for one in runs["scan"]]
    yield figures.Figure(size + ": peak memory of scan", max(peaks), "MiB", "<= 64", {"peak_mib": peaks})


def _counted(done: figures.Run, of_interest: int) -> figures.Run:
    if int(done.output) != of_interest:
        raise figures.BenchmarkError("counted %s lines, %d are of interest" % (done.output.strip(), of_interest))
    return done
