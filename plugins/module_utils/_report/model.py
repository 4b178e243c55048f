# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings and verdicts, the one shape in which every check answers. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

# Worst last. "skip" ranks lowest because it says nothing: it never makes a bad result better.
VERDICTS = ("skip", "pass", "warn", "unknown", "fail")

SEVERITIES = ("info", "warning", "critical")

# Least urgent first: of several findings on one subject, the later word is what a person does first.
ACTIONS = (
    "none",
    "look_at_code",
    "restart_job",
    "reset_gpu",
    "reboot_node",
    "check_cooling",
    "check_power",
    "reseat",
    "contact_vendor",
    "replace",
)

SUBJECT_KINDS = ("node", "gpu", "nvswitch", "pcie_port", "disk", "file", "filesystem", "nic", "psu", "rank", "process", "tool")

_VERDICT_OF_SEVERITY = {"info": "pass", "warning": "warn", "critical": "fail"}


@dataclass(frozen=True)
class Subject:
    """What a finding is about. A GPU is named by serial or UUID first: PCI addresses and indexes move between boots."""

    kind: str
    name: str = ""  # device, mount point, tool, product
    index: t.Optional[int] = None
    pci: t.Optional[str] = None  # dddd:bb:dd, lower case, no function
    uuid: t.Optional[str] = None
    serial: t.Optional[str] = None

    def label(self) -> str:
        """For people: C(GPU 3 0000:c1:00 serial 1654...)."""
        words = {"gpu": "GPU", "nic": "NIC", "psu": "PSU", "pcie_port": "PCIe port", "nvswitch": "NVSwitch"}
        parts = [words.get(self.kind, self.kind)]
        parts += [str(part) for part in (self.index, self.pci) if part is not None]
        if len(parts) == 1 and self.name:
            parts.append(self.name)
        if self.serial:
            parts.append("serial " + self.serial)
        elif self.uuid:
            parts.append(self.uuid)
        return " ".join(parts)

    def keys(self) -> t.FrozenSet[str]:
        """Every name a person may use for this subject in a waiver, lower case."""
        names = [self.serial, self.uuid, self.pci, self.name, self.label()]
        if self.index is not None:
            names += ["%s%d" % (self.kind, self.index), "%s %d" % (self.kind, self.index)]
        return frozenset(name.lower() for name in names if name) | {self.kind}


NODE = Subject("node")


@dataclass(frozen=True)
class Finding:
    """One thing a check saw.

    C(undetermined) marks what could not be told (tool missing, hung, garbled, value absent): its verdict is C(unknown).
    """

    code: str  # stable: xid.79, gpu.pcie_width
    severity: str
    subject: Subject
    message: str  # one line, with the measured and the allowed value
    action: str = "none"
    evidence: t.Tuple[str, ...] = ()
    advice: str = ""  # the next step in words, where the action word alone is not enough
    undetermined: bool = False
    count: int = 1
    first: t.Optional[str] = None  # time of the first and last sighting, as the source gave it
    last: t.Optional[str] = None

    @property
    def verdict(self) -> str:
        return "unknown" if self.undetermined else _VERDICT_OF_SEVERITY[self.severity]

    def rank(self) -> t.Tuple[int, int, bool]:
        """Sort key, best first: by verdict, then by how urgent the action is, then by whether it names more than the node."""
        return VERDICTS.index(self.verdict), ACTIONS.index(self.action), self.subject.kind != "node"

    def as_dict(self) -> t.Dict[str, t.Any]:
        subject = {key: value for key, value in vars(self.subject).items() if value not in (None, "")}
        return {
            "code": self.code,
            "severity": self.severity,
            "verdict": self.verdict,
            "subject": dict(subject, label=self.subject.label(), keys=sorted(self.subject.keys())),
            "message": self.message,
            "action": self.action,
            "advice": self.advice,
            "evidence": list(self.evidence),
            "count": self.count,
            "first": self.first,
            "last": self.last,
        }


@dataclass(frozen=True)
class Check:
    """What one check concluded.

    C(evidence) says, in words, what was really seen ("8 GPUs read through NVML"). A check with no evidence and no finding
    is C(unknown): nothing was measured.
    """

    name: str  # gpu, kernel_log
    evidence: str
    findings: t.Tuple[Finding, ...] = ()
    skipped: str = ""  # why it was not asked to run
    metrics: t.Mapping[str, t.Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.skipped:
            return "skip"
        found = worst(finding.verdict for finding in self.findings)
        if not self.evidence:
            return worst((found, "unknown"))
        return worst((found, "pass"))

    @property
    def action(self) -> str:
        return urgent(self.findings)

    def as_dict(self) -> t.Dict[str, t.Any]:
        return {
            "name": self.name,
            "verdict": self.verdict,
            "action": self.action,
            "evidence": self.evidence,
            "skipped": self.skipped,
        }


def worst(verdicts: t.Iterable[str]) -> str:
    """The worst of the verdicts; of none at all, C(skip)."""
    return max(verdicts, key=VERDICTS.index, default="skip")


def urgent(findings: t.Iterable[Finding]) -> str:
    """What to do first: the action of the worst findings, the most urgent of them where several are equally bad."""
    ranked = [(VERDICTS.index(finding.verdict), ACTIONS.index(finding.action)) for finding in findings]
    if not ranked:
        return "none"
    return ACTIONS[max(ranked)[1]]


def report(checks: t.Sequence[Check], simulated: bool = False, **facts: t.Any) -> t.Dict[str, t.Any]:
    """The return values that every check module shares; findings worst first, each naming its check."""
    pairs = [(check.name, finding) for check in checks for finding in check.findings]
    pairs.sort(key=lambda pair: pair[1].rank(), reverse=True)
    return {
        "changed": False,
        "verdict": worst(check.verdict for check in checks),
        "action": urgent(finding for dummy, finding in pairs),
        "checks": [check.as_dict() for check in checks],
        "findings": [dict(finding.as_dict(), check=name) for name, finding in pairs],
        "metrics": {check.name: dict(check.metrics) for check in checks},
        "simulated": simulated,
        **facts,
    }
