# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge a kernel log: findings and incidents. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._parse.kernel_log_records import KernelLog
from .._report.model import ACTIONS, NODE, VERDICTS, Finding
from . import kernel_faults, kernel_host
from .incidents import MAX_EVIDENCE, Incident, judge_cases, merged, to_incident
from .kernel_policy import KernelPolicy
from .power_loss import judge_power

__all__ = ["Incident", "KernelPolicy", "incidents", "judge"]


def judge(log: KernelLog, policy: KernelPolicy) -> t.Tuple[Finding, ...]:
    """Everything found, worst first. Nothing found in a log that was read: no finding."""
    judged = judge_cases(log, policy)
    # Before the incidents are put into words: a lost supply changes what is to be done about its GPUs.
    supplies = judge_power(judged, policy)
    found = [
        *_about_the_log(log),
        *supplies,
        *merged(to_incident(one, log, policy).finding for one in judged),
        *kernel_faults.judge_sxids(log, policy, judged),
        *kernel_faults.judge_driver(log, policy, judged),
        *kernel_faults.judge_aer(log, policy),
        *kernel_host.judge_oom(log, policy),
        *kernel_host.judge_storage(log, policy),
        *kernel_host.judge_other(log, policy),
    ]
    return tuple(sorted(found, key=lambda one: (-VERDICTS.index(one.verdict), -ACTIONS.index(one.action))))


def incidents(log: KernelLog, policy: KernelPolicy) -> t.Tuple[Incident, ...]:
    """One for each cause on each GPU, in the order of the log."""
    judged = judge_cases(log, policy)
    judge_power(judged, policy)
    return tuple(to_incident(one, log, policy) for one in sorted(judged, key=lambda one: one.case.first.order))


def _about_the_log(log: KernelLog) -> t.Iterator[Finding]:
    """What could not be read is not evidence of health."""
    families = (log.events, log.sxids, log.driver_faults, log.aer, log.oom, log.storage, log.other)
    if not log.kernel_lines and not any(families):
        read = "%s read, none of them a kernel's" % _count(log.lines, "line") if log.lines else "no line was read"
        yield Finding(
            "kernel_log.empty",
            "warning",
            NODE,
            "no kernel line was read: not evidence of health (%s)" % read,
            advice="Read the journal's kernel lines (journalctl -k) or dmesg, with the rights to do so.",
            undetermined=True,
        )
    if log.unreadable_records:
        message = "%s of the log could not be read: what was said there is not known" % _count(log.unreadable_records, "record")
        advice = "Read the journal with --all, so that long and binary messages are not left out."
        yield Finding("kernel_log.unreadable", "warning", NODE, message, advice=advice, undetermined=True, count=log.unreadable_records)
    if log.unrecognised:
        yield Finding(
            "kernel_log.unrecognised",
            "warning",
            NODE,
            "lines that speak of an Xid and fit no known form: %s" % log.unrecognised[0],
            evidence=log.unrecognised[:MAX_EVIDENCE],
            advice="Read the lines; a newer driver may word them in another way, which is worth a bug report to this collection.",
            undetermined=True,
            count=len(log.unrecognised),
        )
    if log.suppressed or log.rate_limited:
        told = ["the log left out %s" % _count(log.suppressed, "line")] if log.suppressed else []
        told += ["the driver prints only some of its errors"] if log.rate_limited else []
        yield Finding("kernel_log.suppressed", "info", NODE, " and ".join(told) + ": counts are lower bounds")


def _count(number: int, noun: str) -> str:
    return "%d %s%s" % (number, noun, "" if number == 1 else "s")
