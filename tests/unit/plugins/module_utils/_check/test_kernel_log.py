# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the check of the kernel log returns, and how much of it."""

from __future__ import annotations

import gzip
import json
import os

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import kernel_log

LOST = "NVRM: Xid (PCI:0000:2a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
BOOT = ["usb 1-%d: new high-speed USB device" % port for port in range(40)]


def stamped(*texts: str, start: float = 1.0, step: float = 0.5) -> str:
    return "".join("[%12.6f] %s\n" % (start + step * place, text) for place, text in enumerate(texts))


def run(path, **options):
    return kernel_log.run(kernel_log.Options(**{"source": "file", "paths": [str(path)], **options}))


@pytest.fixture
def log(tmp_path):
    return tmp_path / "kern.log"


def test_events_of_a_flood_are_counted_and_the_most_telling_listed(log):
    flood = ["NVRM: Xid (PCI:0000:18:00): 31, pid=%d, name=train, Ch 00000008, MMU Fault" % pid for pid in range(3000)]
    log.write_text(stamped(*BOOT, LOST, *flood, step=100))
    check, facts = run(log)
    assert (check.verdict, check.action) == ("fail", "reseat")
    assert facts["totals"]["events"] == 3001
    assert len(facts["events"]) == len(facts["incidents"]) == kernel_log.MAX_LISTED
    assert {79, 31} == {event["xid"] for event in facts["events"]}
    assert facts["events"][-1]["pid"] == 2999
    assert 79 in {incident["root_xid"] for incident in facts["incidents"]}
    assert len(json.dumps({"facts": facts, "findings": [finding.as_dict() for finding in check.findings]})) < 400000
    assert check.metrics["xids"] == {"79": 1, "31": 3000}


def test_findings_of_a_flood_are_cut_and_the_worst_stay(log):
    kills = [
        "Out of memory: Killed process %d (job%d) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0" % (pid, pid)
        for pid in range(500)
    ]
    log.write_text(stamped(*BOOT, *kills, LOST))
    check, _facts = run(log)
    assert (check.verdict, check.action) == ("fail", "reseat")
    assert len(check.findings) == kernel_log.MAX_LISTED + 1
    more = next(finding for finding in check.findings if finding.code == "kernel_log.more")
    assert more.message == "301 findings more, none of them worse"
    assert len(json.dumps([finding.as_dict() for finding in check.findings])) < 400000


def test_endless_lines_are_cut_in_evidence_and_facts(log):
    log.write_text(stamped(*BOOT, LOST + " " + "x" * 1000000))
    check, facts = run(log)
    assert check.verdict == "fail"
    assert len(json.dumps({"facts": facts, "findings": [finding.as_dict() for finding in check.findings]})) < 20000


@pytest.mark.parametrize(
    ("name", "content", "verdict", "words"),
    [
        pytest.param("kern.log", stamped(*BOOT).encode(), "pass", "40 kernel log lines", id="plain"),
        pytest.param("kern.log.1.gz", gzip.compress(stamped(*BOOT).encode()), "pass", "40 kernel log lines", id="gzip"),
        pytest.param("kern.log", b"", "unknown", "is empty", id="empty"),
        pytest.param("kern.log", b"This is a shopping list.\nEggs\n", "unknown", "none of them a kernel's", id="not a log"),
        pytest.param("kern.log", bytes(range(256)) * 4000, "unknown", "none of them a kernel's", id="bytes without sense"),
        pytest.param("kern.log.gz", b"not gzip", "unknown", "could not be read to its end", id="false suffix"),
    ],
)
def test_file(tmp_path, name, content, verdict, words):
    (tmp_path / name).write_bytes(content)
    check, _facts = run(tmp_path / name)
    assert check.verdict == verdict
    assert words in check.evidence + " ".join(finding.message for finding in check.findings)
    assert bool(check.evidence) == (verdict == "pass")


def test_missing_file_and_missing_path(tmp_path):
    for path, words in ((tmp_path / "none.log", "No such file"), (tmp_path / "*.log", "no log file found")):
        check, _facts = run(path)
        assert check.verdict == "unknown"
        assert words in check.findings[0].message


def test_pipe_that_nobody_writes_to_ends_at_the_deadline(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    check, _facts = run(tmp_path / "pipe", deadline_seconds=0.3)
    assert (check.verdict, check.findings[0].code) == ("unknown", "tool.timeout")


def test_log_that_was_just_rotated_is_no_fault(log, tmp_path):
    log.write_text("")
    (tmp_path / "kern.log.1").write_text(stamped(*BOOT))
    check, facts = run(log, rotated=True)
    assert (check.verdict, facts["source"]) == ("pass", [str(tmp_path / "kern.log.1")])
    assert run(log)[0].verdict == "unknown"


def test_generations_are_one_log(log, tmp_path):
    (tmp_path / "kern.log.1").write_text(stamped(*BOOT, "NVRM: Xid (PCI:0000:2a:00): 95, pid=1, name=x, Uncontained: LTC. RST: Yes"))
    recovered = "NVRM: Xid (PCI:0000:2a:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    log.write_text(stamped(*BOOT, recovered, start=500))
    assert run(tmp_path / "kern.log.1")[0].verdict == "fail"
    assert run(log, rotated=True)[0].verdict == "pass"


@pytest.mark.parametrize(("boot", "verdict"), [("current", "pass"), ("all", "fail")])
def test_file_with_two_boots(log, boot, verdict):
    banner = "[    0.000000] Linux version 6.8.0 (simulated)\n"
    log.write_text(banner + stamped(*BOOT, LOST) + banner + stamped(*BOOT))
    assert run(log, boot=boot)[0].verdict == verdict


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deadline_seconds": 0}, "deadline"),
        ({"deadline_seconds": float("nan")}, "deadline"),
        ({"policy": {"xid_policy": {79: {"severity": "awful"}}}}, "awful"),
        ({"policy": {"warning_hours": -1}}, "warning_hours"),
        ({"policy": {"power_domains": {"a": 3}}}, "power_domains"),
        ({"boot": "yesterday"}, "boot"),
        ({"paths": []}, "none is named"),
    ],
)
def test_wrong_options_are_named(log, options, words):
    with pytest.raises(ValueError, match=words):
        run(log, **options)
