# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All passive checks of a node in one pass. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import typing as t

from .._report.model import Check, Finding, report
from . import gpu, kernel_log

CHECKS = (gpu.NAME, kernel_log.NAME)


# The long lists: every value of every GPU, every event of the log.
_DETAILS = ("gpus", "events", "sxids", "incidents", "gpu_uuids", "gpu_serials")


def run(names: t.Sequence[str], gpu_options: gpu.Options, log_options: kernel_log.Options, details: bool = True) -> t.Dict[str, t.Any]:
    """The report of the named checks; those not named are in it as skipped, so that a gate can tell.

    Without C(details) the facts are what each check rests on, and not every value that it read.
    """
    checks: t.List[Check] = []
    facts: t.Dict[str, t.Any] = {}
    if gpu.NAME in names:
        check, facts[gpu.NAME] = gpu.run(gpu_options)
        checks.append(check)
    else:
        checks.append(Check(gpu.NAME, "", skipped="not asked for"))
    if kernel_log.NAME in names:
        check, facts[kernel_log.NAME] = kernel_log.run(_informed(log_options, gpu_options.expected, facts.get(gpu.NAME, {})))
        checks.append(check)
    else:
        checks.append(Check(kernel_log.NAME, "", skipped="not asked for"))
    names_of = _identities(facts)
    checks = _with_one_cause([_identified(check, names_of) for check in checks], facts)
    simulated = any(read["simulated"] for read in facts.values())
    if not details:
        facts = {name: {key: value for key, value in read.items() if key not in _DETAILS} for name, read in facts.items()}
    return report(checks, simulated=simulated, facts=facts)


def _informed(options: kernel_log.Options, expected: t.Mapping[str, t.Any], known: t.Mapping[str, t.Any]) -> kernel_log.Options:
    """The log names GPUs by PCI address only: tell its judge what the GPUs said of themselves and how power is wired."""
    policy = {"power_domains": expected.get("power_domains") or {}, "driver_version": known.get("driver_version"), **options.policy}
    addresses = [item["pci"] for item in known.get("gpus", ()) if item.get("pci")]
    return dataclasses.replace(options, policy=policy, known_gpus=(*addresses, *known.get("lost", ())), gpu_count=expected.get("count"))


def _identities(facts: t.Mapping[str, t.Any]) -> t.Dict[str, t.Dict[str, t.Any]]:
    """Index, UUID and serial by PCI address. A GPU that no longer answers was still announced in the log."""
    known: t.Dict[str, t.Dict[str, t.Any]] = {}
    log = facts.get(kernel_log.NAME, {})
    for key, table in (("uuid", log.get("gpu_uuids", {})), ("serial", log.get("gpu_serials", {}))):
        for address, value in table.items():
            known.setdefault(address, {})[key] = value
    for item in facts.get(gpu.NAME, {}).get("gpus", ()):
        if item.get("pci"):
            known.setdefault(item["pci"], {}).update({key: item[key] for key in ("index", "uuid", "serial") if key in item})
    return known


def _identified(check: Check, known: t.Mapping[str, t.Mapping[str, t.Any]]) -> Check:
    findings = []
    for finding in check.findings:
        names = known.get(finding.subject.pci or "", {}) if finding.subject.kind == "gpu" else {}
        missing = {key: value for key, value in names.items() if getattr(finding.subject, key) is None}
        findings.append(dataclasses.replace(finding, subject=dataclasses.replace(finding.subject, **missing)))
    return dataclasses.replace(check, findings=tuple(findings))


def _with_one_cause(checks: t.Sequence[Check], facts: t.Mapping[str, t.Any]) -> t.List[Check]:
    """What the two checks know of each other: why GPUs are gone and which, and whether a driver is there to reset one."""
    failed = [finding for check in checks for finding in check.findings if finding.verdict == "fail"]
    supply = next((finding for finding in failed if finding.code == "psu.lost"), None)
    powerless = {finding.subject.pci for finding in failed if finding.code.startswith("xid.") and finding.action == "check_power"}
    answering = {item.get("pci") for item in facts.get(gpu.NAME, {}).get("gpus", ()) if item.get("state") != "lost"}
    off_the_bus = [finding.subject.label() for finding in failed if finding.code == "xid.79" and finding.subject.pci not in answering]
    hangs = any(finding.code == "tool.timeout" for check in checks if check.name == gpu.NAME for finding in check.findings)

    def settled(finding: Finding) -> Finding:
        if finding.code == "gpu.count" and finding.severity == "critical" and off_the_bus:
            message = "%s; the kernel log says that these fell off the bus: %s" % (finding.message, ", ".join(off_the_bus))
            finding = dataclasses.replace(finding, message=message.replace("; which ones is not known", ""))
        gone = finding.code == "gpu.count" or (finding.code == "gpu.lost" and finding.subject.pci in powerless)
        if supply is not None and gone and finding.action == "reseat":
            return dataclasses.replace(finding, action="check_power", advice=supply.advice)
        if hangs and finding.verdict == "fail" and finding.action == "reset_gpu":
            message = finding.message + "; the driver does not answer, and cannot reset anything then"
            return dataclasses.replace(finding, message=message, action="reboot_node")
        return finding

    return [dataclasses.replace(check, findings=tuple(map(settled, check.findings))) for check in checks]
