# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge C(dcgmi diag). Private to kentino.gpu.

DCGM says pass where an error is recorded, skips nearly everything on a card that it does not know and calls that a success, and
ends with the same status for a setting as for a fault. So each result of each GPU is judged, by the number of its errors.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._knowledge import dcgm_errors
from .._parse.dcgm_diag import DcgmDiag, DiagError, DiagResult, DiagRun, DiagTest
from .._report.model import NODE, Check, Finding, Subject, worst
from . import dcgm_coverage

NAME = "dcgm"
POLICY_KEYS = ("required_tests", "expected_gpus", "errors")

_SHOWN = 3
_LONGEST = 300
_KINDS = {"GPU": "gpu", "GPU_I": "gpu", "GPU_CI": "gpu", "NVSWITCH": "nvswitch", "SWITCH": "nvswitch"}
# "Thermal violations totaling 0.0 seconds", a failure of some versions (NVIDIA/DCGM issue 242).
_NO_TIME = re.compile(r"(?<![0-9.])0(?:\.0+)? seconds")
_THERMAL = (40, 41)
_ACTIONS = (("pcie", "reseat"), ("nvbandwidth", "reseat"), ("power", "check_power"), ("pulse", "check_power"))


def judge(record: DcgmDiag, policy: t.Mapping[str, t.Any]) -> t.Tuple[Finding, ...]:
    """What is wrong, run by run; the same thing in several runs is one finding with a count.

    C(policy), all optional: C(required_tests), names of any DCGM version, which then are the only ones that must have run;
    C(expected_gpus); C(errors), overrides of the error table by number.
    """
    findings = [finding for run in record.runs for finding in judge_run(run, policy)]
    if not record.complete:
        what = "the answer of dcgmi is cut or garbled" if record.runs else "dcgmi printed no document that could be read"
        findings.append(_unknown("dcgm.unreadable", NODE, what, record.unrecognised[:_SHOWN]))
    elif not any(tests_run(run.tests) for run in record.runs):
        findings.append(_unknown("dcgm.nothing_ran", NODE, "no test ran on any GPU", record.unrecognised[:_SHOWN]))
    findings += _judge_overall(record, findings)
    findings += _judge_exit_status(record, findings)
    return _merged(findings)


def judge_run(run: DiagRun, policy: t.Mapping[str, t.Any]) -> t.Tuple[Finding, ...]:
    """The findings of one document or of one iteration."""
    findings = [finding for test in run.tests for finding in _judge_test(test, run, policy.get("errors"))]
    for error in run.errors:
        findings.append(_error_finding("the diagnostic", error, "fail", NODE, policy.get("errors")))
    if run.runtime_error:
        findings.append(_unknown("dcgm.runtime_error", NODE, "the diagnostic could not run: %s" % run.runtime_error))
    if run.iteration is not None and not tests_run(run.tests):
        findings.append(_unknown("dcgm.nothing_ran", NODE, "no test ran in iteration %d" % run.iteration))
    if run.complete:
        for gap in dcgm_coverage.gaps(run, policy):
            subject = NODE if gap.gpu is None else _subject(DiagResult("GPU", gap.gpu, ""), run)
            findings.append(_unknown("dcgm." + gap.kind, subject, gap.message))
    return tuple(findings)


def check(record: DcgmDiag, policy: t.Mapping[str, t.Any]) -> Check:
    """The findings together with what was really tested."""
    ran = {test.name for run in record.runs for test in tests_run(run.tests)}
    gpus = {gpu for run in record.runs for gpu in dcgm_coverage.tested_gpus(run)}
    evidence = ""
    if ran and record.complete:
        evidence = "%d tests ran%s" % (len(ran), " on %d GPUs" % len(gpus) if gpus else "")
    return Check(NAME, evidence, judge(record, policy), metrics={"tests_run": len(ran), "gpus_tested": len(gpus)})


def verdict_of_run(run: DiagRun, policy: t.Mapping[str, t.Any]) -> str:
    proof = "pass" if run.complete and tests_run(run.tests) else "unknown"
    return worst([proof, *(finding.verdict for finding in judge_run(run, policy))])


def tests_run(tests: t.Iterable[DiagTest]) -> t.List[DiagTest]:
    """Those with a result: pass, fail or warn, on one GPU at least."""
    return [test for test in tests if test.executed]


def settings_only(record: DcgmDiag) -> bool:
    """Whether something failed, and every failure is a setting known by its error number."""
    failed = [errors for run in record.runs for test in run.tests for errors in _failures(test)]
    lone = [error for run in record.runs for error in run.errors]
    every = [errors and all(_is_setting(error) for error in errors) for errors in failed]
    return bool(every) and all(every) and not lone


def _failures(test: DiagTest) -> t.Iterator[t.Tuple[DiagError, ...]]:
    """The errors of everything in C(test) that failed."""
    failed = [result.errors for result in test.results if result.status == "fail"]
    yield from failed
    if test.status == "fail" and (not failed or test.errors):
        yield test.errors


def _is_setting(error: DiagError) -> bool:
    # A document that itself says isolate or reset is not talked out of it.
    return dcgm_errors.lookup(error.id).setting and dcgm_errors.nvidia_severity(error.severity) not in dcgm_errors.GRAVE


def _judge_test(test: DiagTest, run: DiagRun, overrides: t.Optional[t.Mapping[t.Any, t.Any]]) -> t.Iterator[Finding]:
    name = test.name or "a test without a name"
    if not test.name:
        yield _unknown("dcgm.status", NODE, "a test has no name: the answer is garbled")
    for result in test.results:
        yield from _judge_status(result, run, overrides, name)
    seen = {result.status for result in test.results}
    alone = test.summary if test.summary in ("fail", "warn", "unknown") and test.summary not in seen else None
    if alone or test.errors:
        status = alone or (test.summary if test.summary in seen else test.status)
        yield from _judge_status(DiagResult(None, None, status or "pass", test.errors), run, overrides, name)


def _judge_status(result: DiagResult, run: DiagRun, overrides: t.Optional[t.Mapping[t.Any, t.Any]], name: str) -> t.Iterator[Finding]:
    subject = _subject(result, run)
    where = "%s on %s" % (name, subject.label()) if subject is not NODE else name
    for error in result.errors:
        yield _error_finding(where, error, result.status, subject, overrides)
    if result.status == "fail" and not result.errors:
        yield Finding("dcgm.failed", "critical", subject, "%s failed and gives no reason" % where, _action(name), result.info[:_SHOWN])
    elif result.status == "warn" and not result.errors:
        yield Finding("dcgm.warned", "warning", subject, "%s warns and gives no reason" % where, "none", result.info[:_SHOWN])
    elif result.status == "unknown":
        yield _unknown("dcgm.status", subject, "%s: the status is none that is known" % where, result.info[:_SHOWN])


def _error_finding(where: str, error: DiagError, status: str, subject: Subject, overrides: t.Optional[t.Mapping[t.Any, t.Any]]) -> Finding:
    entry = dcgm_errors.lookup(error.id, overrides)
    code = "dcgm.%s" % ("error" if error.id is None else error.id)
    severity = _severity(error, status, entry.severity)
    if error.id is not None and overrides and (error.id in overrides or str(error.id) in overrides):
        severity = entry.severity
    what = " ".join(error.text.split())[:_LONGEST] or entry.meaning
    name = entry.name if entry.known and error.id is not None else "error %s" % ("without number" if error.id is None else error.id)
    said = {"fail": "failed", "warn": "warns", "skip": "was skipped", "pass": "passed and yet records an error"}.get(status, status)
    message = "%s %s: %s (%s)" % (where, said, what, name)
    implausible = error.blank or (error.id in _THERMAL and _NO_TIME.search(error.text) is not None)
    if implausible:
        message += "; the value is none that can have been measured"
    action = "none" if implausible or severity == "info" else entry.action
    return Finding(code, severity, subject, message, action, (error.text,) if error.text else (), entry.advice, implausible)


def _severity(error: DiagError, status: str, own: str) -> str:
    entry = dcgm_errors.lookup(error.id)
    grave = dcgm_errors.nvidia_severity(error.severity) in dcgm_errors.GRAVE
    if status == "fail":
        return "warning" if _is_setting(error) else "critical"
    if status == "skip" and entry.explains_skip:
        return "info"
    grave = grave or (entry.nvidia_severity in dcgm_errors.GRAVE and own == "critical")
    return "critical" if grave else "warning"


def _subject(result: DiagResult, run: DiagRun) -> Subject:
    if result.id is None or result.group is None:
        return NODE
    serial = run.entities.get((result.group, result.id))
    kind = _KINDS.get(result.group.upper())
    if kind is None or result.host is not None:
        host = "" if result.host is None else "host %d " % result.host
        return Subject("node", "%s%s %d" % (host, result.group, result.id), serial=serial)
    return Subject(kind, index=result.id, serial=serial)


def _action(test: str) -> str:
    return next((action for word, action in _ACTIONS if word in test.lower()), "contact_vendor")


def _judge_overall(record: DcgmDiag, findings: t.Sequence[Finding]) -> t.Iterator[Finding]:
    word = (record.overall or "").lower()
    if word and word != "pass" and worst(finding.verdict for finding in findings) in ("skip", "pass", "warn") and not _any_failed(record):
        why = ": %s" % record.overall_warning if record.overall_warning else ""
        yield _unknown("dcgm.overall", NODE, "all iterations together are called %s, and none shows why%s" % (record.overall, why))


def _judge_exit_status(record: DcgmDiag, findings: t.Sequence[Finding]) -> t.Iterator[Finding]:
    status = record.exit_status
    if not status:
        return
    meaning = dcgm_errors.STATUSES.get(status % 256, "a status that DCGM does not give")
    message = "dcgmi ended with status %d: %s" % (status, meaning)
    if status % 256 == dcgm_errors.STATUS_ISOLATE:
        if not any(finding.verdict == "fail" for finding in findings):
            yield Finding("dcgm.exit_status", "critical", NODE, message + ", and no result shows which", "contact_vendor")
    elif record.complete and (status % 256 != dcgm_errors.STATUS_ERROR or not (_any_failed(record) or _any_error(record))):
        yield _unknown("dcgm.exit_status", NODE, message)


def _any_failed(record: DcgmDiag) -> bool:
    return any(test.status == "fail" for run in record.runs for test in run.tests)


def _any_error(record: DcgmDiag) -> bool:
    """From DCGM 4.0 on an error that a test records and passes with makes the status one of an error as well."""
    tests = [test for run in record.runs for test in run.tests]
    return any(test.errors or any(result.errors for result in test.results) for test in tests)


def _merged(findings: t.Iterable[Finding]) -> t.Tuple[Finding, ...]:
    merged: t.Dict[t.Tuple[t.Any, ...], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.subject, finding.verdict, finding.message)
        before = merged.get(key)
        merged[key] = dataclasses.replace(before, count=before.count + 1) if before else finding
    return tuple(merged.values())


def _unknown(code: str, subject: Subject, message: str, evidence: t.Sequence[str] = (), advice: str = "") -> Finding:
    return Finding(code, "warning", subject, message, "none", tuple(evidence), advice, undetermined=True)
