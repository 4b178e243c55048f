# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(parse --kind gpu_burn): the record of a burn as JSON. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._judge import burn
from .._parse import gpu_burn


def answer(text: str, rc: t.Optional[int]) -> t.Dict[str, t.Any]:
    """The record, a verdict and the reason for it. A GPU's number is its place among the tested GPUs."""
    record = gpu_burn.parse(text, rc)
    check = burn.check(record, {})
    reasons = [finding for finding in check.findings if finding.verdict == check.verdict]
    faulty = burn.faulty(record)
    words = {str(gpu): word for gpu, word in record.results}
    words.update({str(gpu): "FAULTY" for gpu in faulty})
    errors = record.init_errors or (() if record.progress else record.failures + record.crashes)
    return {
        "verdict": check.verdict,
        "action": check.action,
        "reason": reasons[0].message if reasons else check.evidence or None,
        "findings": [finding.as_dict() for finding in check.findings],
        "gpus": record.gpus,
        "gpus_listed": len(record.listed) or None,
        "tested": len({gpu for gpu, word in record.results}),
        "complete": record.complete,
        "progress_lines": len(record.progress),
        "tool": words,
        "ok": sorted(int(gpu) for gpu, word in words.items() if word == "OK"),
        "faulty": list(faulty),
        "died": list(burn.died(record)),
        "zero_work": list(burn.without_work(record)),
        "error_gpus": list(burn.with_errors(record)),
        # Counters beside DIED were never written by the child.
        "errors_valid": not burn.died(record) if record.progress else None,
        "init_error": errors[0] if errors else None,
        "requested_seconds": record.requested_seconds,
        "precision": record.precision,
        "last": _last(record),
        "unrecognised": list(record.unrecognised),
    }


def _last(record: gpu_burn.GpuBurn) -> t.Optional[t.Dict[str, t.Any]]:
    if not record.progress:
        return None
    last = record.progress[-1]
    return {
        "percent": last.percent,
        "work": list(last.work),
        "gflops": list(last.gflops),
        "errors": list(last.errors),
        "flags": list(last.flags),
        "temps_c": list(last.temps_c),
    }
