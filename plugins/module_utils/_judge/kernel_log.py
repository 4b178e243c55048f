# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge a kernel log: findings and incidents. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._parse.kernel_log_records import KernelLog
from .._report.model import ACTIONS, NODE, VERDICTS, Finding
from .kernel_policy import MAX_EVIDENCE, KernelPolicy

if t.TYPE_CHECKING:
    from .incidents import Incident

__all__ = ["KernelPolicy", "incidents", "judge"]


def judge(log: KernelLog, policy: KernelPolicy) -> t.Tuple[Finding, ...]:
    """Everything found, worst first. Nothing found in a log that was read: no finding."""
    found = [*_about_the_log(log), *(_about_events(log, policy) if _eventful(log) else ())]
    return tuple(sorted(found, key=lambda one: (-VERDICTS.index(one.verdict), -ACTIONS.index(one.action))))


def _eventful(log: KernelLog) -> bool:
    return any(_families(log)) or bool(log.affected) or log.recovered is False


def _families(log: KernelLog) -> t.Tuple[t.Sequence[t.Any], ...]:
    return (log.events, log.sxids, log.driver_faults, log.aer, log.oom, log.storage, log.other)


def _about_events(log: KernelLog, policy: KernelPolicy) -> t.Iterator[Finding]:
    # Ansible compiles whatever a module imports anew on every node: a healthy one has no event, and needs none of this.
    from . import kernel_faults, kernel_host
    from .incidents import judge_cases, merged, to_incident
    from .power_loss import judge_power

    judged = judge_cases(log, policy)
    # Before the incidents are put into words: a lost supply changes what is to be done about its GPUs.
    yield from judge_power(judged, policy)
    yield from merged(to_incident(one, log, policy).finding for one in judged)
    yield from kernel_faults.judge_sxids(log, policy, judged)
    yield from kernel_faults.judge_driver(log, policy, judged)
    yield from kernel_faults.judge_aer(log, policy)
    yield from kernel_host.judge_oom(log, policy)
    yield from kernel_host.judge_storage(log, policy)
    yield from kernel_host.judge_other(log, policy)


def incidents(log: KernelLog, policy: KernelPolicy) -> t.Tuple[Incident, ...]:
    """One for each cause on each GPU, in the order of the log."""
    if not log.events and not log.driver_faults:
        return ()
    from .incidents import judge_cases, to_incident
    from .power_loss import judge_power

    judged = judge_cases(log, policy)
    judge_power(judged, policy)
    return tuple(to_incident(one, log, policy) for one in sorted(judged, key=lambda one: one.case.first.order))


def _about_the_log(log: KernelLog) -> t.Iterator[Finding]:
    """What could not be read is not evidence of health."""
    if not log.kernel_lines and not any(_families(log)):
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
