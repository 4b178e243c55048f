# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What C(dcgmi diag) did not test. Private to kentino.gpu.

A test skipped on every GPU is DCGM's decision (EUD is not installed). One GPU left out where its siblings were tested is not.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .._parse.dcgm_diag import EXECUTED, DiagRun, DiagTest

# Names of DCGM 2 and 3 that are more than another spelling of those of DCGM 4.
_NAMES = {"gpumemory": "memory", "eudtest": "eud", "pulse": "pulsetest", "cpueudtest": "cpueud"}
# DCGM 4's software test is the Deployment category of DCGM 2 and 3.
_DEPLOYMENT = "deployment"


@dataclass(frozen=True)
class Gap:
    kind: str  # not_run skipped required not_covered gpu_count
    message: str
    gpu: t.Optional[int] = None


def gaps(run: DiagRun, policy: t.Mapping[str, t.Any]) -> t.Iterator[Gap]:
    """Everything in C(run) that leaves a GPU untested; C(policy) as in the judge of the diagnostic."""
    required = policy.get("required_tests")
    if required is None:
        # A test that is named and has no result was stopped before its turn.
        for test in run.tests:
            if test.status == "not_run":
                yield Gap("not_run", "%s did not run" % test.name)
        yield from _mostly_skipped(run)
    else:
        yield from _required(run, required)
    expected = policy.get("expected_gpus")
    tested = tested_gpus(run)
    if expected is not None and len(tested) != expected:
        yield Gap("gpu_count", "%d GPUs were tested, %d expected" % (len(tested), expected))
    for gpu in sorted(_known_gpus(run)):
        yield from _gpu(run, gpu, gpu in tested)


def _mostly_skipped(run: DiagRun) -> t.Iterator[Gap]:
    """On a card that it does not know DCGM skips nearly everything but the software checks (NVIDIA/DCGM issues 55 and 139)."""
    hardware = [test for test in run.tests if not _is_software(test)]
    skipped = [test.name for test in hardware if test.status == "skip"]
    if len(skipped) > sum(test.executed for test in hardware):
        yield Gap("skipped", "most tests of the hardware were skipped: %s" % ", ".join(skipped))


def _is_software(test: DiagTest) -> bool:
    return (test.category or "").lower() == _DEPLOYMENT or _folded(test.name) == "software"


def tested_gpus(run: DiagRun) -> t.Set[int]:
    return {gpu for test in run.tests for gpu in _executed(test)}


def _executed(test: DiagTest) -> t.Set[int]:
    return {result.id for result in test.results if result.group == "GPU" and result.id is not None and result.status in EXECUTED}


def _known_gpus(run: DiagRun) -> t.Set[int]:
    printed = {result.id for test in run.tests for result in test.results if result.group == "GPU" and result.id is not None}
    return printed | {number for group, number in run.entities if group == "GPU"}


def _gpu(run: DiagRun, gpu: int, tested: bool) -> t.Iterator[Gap]:
    if not tested:
        # Deployment names a GPU only where it has something to say of it, so at level 1 nothing can be said of the others.
        if any(not _is_software(test) and _executed(test) for test in run.tests):
            yield Gap("not_covered", "no test ran on GPU %d" % gpu, gpu)
        return
    left_out = [test.name for test in run.tests if _left_out(test, gpu)]
    if left_out:
        yield Gap("not_covered", "GPU %d was left out of %s" % (gpu, ", ".join(left_out)), gpu)


def _left_out(test: DiagTest, gpu: int) -> bool:
    """In Deployment, DCGM 3.3 names a GPU only where it has something to say of it."""
    if _is_software(test):
        return False
    executed = _executed(test)
    # A status that is not understood is a finding of its own.
    other = {result.id for result in test.results if result.group == "GPU" and result.status == "unknown"}
    return bool(executed) and gpu not in executed and gpu not in other


def _required(run: DiagRun, names: t.Iterable[str]) -> t.Iterator[Gap]:
    for name in names:
        same = [test for test in run.tests if _same(test, name)]
        if any(test.executed for test in same):
            continue
        status = {"skip": "was skipped", "not_run": "did not run", "unknown": "has no status that is known"}
        said = status[same[0].status] if same else "is not in the answer"
        yield Gap("required", "the required test %s %s" % (name, said))


def _same(test: DiagTest, name: str) -> bool:
    wanted = _folded(name)
    return _folded(test.name) == wanted or (wanted == "software" and (test.category or "").lower() == _DEPLOYMENT)


def _folded(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return _NAMES.get(plain, plain)
