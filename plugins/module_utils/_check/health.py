# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All passive checks of a node in one pass. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import typing as t

from .._report.model import Check, report
from . import gpu, kernel_log

CHECKS = (gpu.NAME, kernel_log.NAME)


def run(names: t.Sequence[str], gpu_options: gpu.Options, log_options: kernel_log.Options) -> t.Dict[str, t.Any]:
    """The report of the named checks; those not named are in it as skipped, so that a gate can tell."""
    checks: t.List[Check] = []
    facts: t.Dict[str, t.Any] = {}
    if gpu.NAME in names:
        check, facts[gpu.NAME] = gpu.run(gpu_options)
        checks.append(check)
    else:
        checks.append(Check(gpu.NAME, "", skipped="not asked for"))
    if kernel_log.NAME in names:
        known = facts.get(gpu.NAME, {})
        check, facts[kernel_log.NAME] = kernel_log.run(_informed(log_options, gpu_options.expected, known))
        checks.append(check)
    else:
        checks.append(Check(kernel_log.NAME, "", skipped="not asked for"))
    names_of = _identities(facts)
    simulated = any(read["simulated"] for read in facts.values())
    return report([_identified(check, names_of) for check in checks], simulated=simulated, facts=facts)


def _informed(options: kernel_log.Options, expected: t.Mapping[str, t.Any], known: t.Mapping[str, t.Any]) -> kernel_log.Options:
    """The log names GPUs by PCI address only: tell its judge what the GPUs said of themselves and how power is wired."""
    address = {str(item.get("index")): item["pci"] for item in known.get("gpus", ()) if item.get("pci")}
    domains = {
        name: [address.get(str(member), str(member)) for member in members]
        for name, members in (expected.get("power_domains") or {}).items()
    }
    policy = {"power_domains": domains, "driver_version": known.get("driver_version"), **options.policy}
    return dataclasses.replace(options, policy=policy)


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
