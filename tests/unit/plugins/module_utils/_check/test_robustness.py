# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tools, libraries and files that misbehave: the answer comes in time, is unknown, names the cause, and opens no gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import gpu
from ansible_collections.kentino.gpu.plugins.module_utils._probe import journal
from ansible_collections.kentino.gpu.plugins.module_utils._report import policy
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import nodes
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node

LOG, GPU = ("kernel_log",), ("gpu",)
# For what hangs, and for what ends by itself even on a machine that has much else to do.
SHORT, LONG = 0.7, 30.0
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
LOST = "NVRM: Xid (PCI:%s): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
# Two records, then whatever comes behind; %s is a line of the log.
RECORD = (
    '{"__CURSOR":"s=1;i=%d;b=2;m=3;t=4;x=5","_BOOT_ID":"22222222222222222222222222222222","_TRANSPORT":"kernel","PRIORITY":"4",'
    '"SYSLOG_IDENTIFIER":"kernel","_SOURCE_MONOTONIC_TIMESTAMP":"%d","MESSAGE":"%s"}'
)
RECORDS = "cat <<'EOF'\n%s\n%s\nEOF\n" % (RECORD % (1, 1000, "usb 1-1: new device"), RECORD % (2, 2000, LOST % "0000:2a:00"))
ENDLESS_NOISE = "yes '%s'" % (RECORD % (1, 1000, "usb 1-1: new device"))
RUBBISH = "head -c 300000 /dev/urandom"


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path, "h100x8")


@pytest.fixture
def no_ring(node):
    (node.root / "dev/kmsg").unlink()
    return node


@pytest.fixture
def no_nvml(tmp_path):
    node = Node(tmp_path, "l40sx4+no_nvml")
    node.environment["LD_LIBRARY_PATH"] = ""
    return node


def shut(report: t.Mapping[str, t.Any], name: str, begin: float, seconds: float = 60) -> t.Dict[str, t.Any]:
    """The finding that says why; what must hold of every such report is checked on the way."""
    assert time.monotonic() - begin < seconds
    assert report["verdict"] == "unknown", report["findings"]
    assert nodes.verdict(report, name) == "unknown"
    assert nodes.evidence(report, name) == ""
    assert not policy.decide(report).open
    return next(item for item in report["findings"] if item["verdict"] == "unknown")


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        pytest.param("kill -KILL $$", "kernel_log.unread", "signal 9", id="killed before it said anything"),
        pytest.param("exec sleep 60", "tool.timeout", "did not answer", id="hangs"),
        pytest.param("trap '' TERM; sleep 60 & wait; sleep 60", "tool.timeout", "did not answer", id="hangs and ignores SIGTERM"),
        pytest.param("true", "kernel_log.unread", "no kernel record", id="says nothing and success"),
        pytest.param("exit 7", "kernel_log.unread", "status 7", id="says nothing and fails"),
        pytest.param(RUBBISH, "tool.garbled", "nothing that is a kernel record", id="prints bytes without sense"),
        pytest.param(
            "echo '{}'; echo '[1]'; echo null", "tool.garbled", "nothing that is a kernel record", id="prints JSON of another kind"
        ),
        pytest.param("printf '%s' '" + "[" * 50000 + "'", "tool.garbled", "nothing that is", id="prints JSON nested without end"),
        pytest.param(ENDLESS_NOISE, "tool.timeout", "did not answer", id="prints without end"),
        pytest.param("yes >&2", "kernel_log.unread", "more than", id="complains without end"),
    ],
)
def test_journalctl_that(no_ring, script, code, words):
    no_ring.tool("journalctl", script)
    begin = time.monotonic()
    report = no_ring.check(LOG, deadline_seconds=SHORT if code == "tool.timeout" else LONG)
    why = shut(report, "kernel_log", begin)
    assert (why["code"], why["subject"]["name"]) == (code, "journalctl")
    assert words in why["message"]
    assert "kernel_log.empty" not in nodes.codes(report)  # why nothing was read is told once


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param(RECORDS + "kill -KILL $$", "kernel_log.unread", id="killed"),
        pytest.param(RECORDS + "exec sleep 60", "tool.timeout", id="hangs"),
        pytest.param(RECORDS + "echo 'Journal file x is truncated, ignoring file.' >&2", "kernel_log.unread", id="skips a damaged file"),
    ],
)
def test_fault_that_was_printed_before_journalctl_broke_off_counts(no_ring, script, code):
    no_ring.tool("journalctl", script)
    report = no_ring.check(LOG, deadline_seconds=SHORT if code == "tool.timeout" else LONG)
    assert (report["verdict"], report["action"]) == ("fail", "reseat")
    assert {"xid.79", code} <= set(nodes.codes(report))
    assert nodes.evidence(report, "kernel_log") == ""


@pytest.mark.parametrize("script", ["kill -KILL $$", "exec sleep 60", RUBBISH, RECORDS + "exec sleep 60"])
def test_fault_in_the_ring_buffer_counts_where_the_journal_misbehaves_and_doubt_stays(node, script):
    node.tool("journalctl", script)
    begin = time.monotonic()
    deadline = SHORT if "sleep" in script else LONG
    healthy = node.check(LOG, deadline_seconds=deadline)
    if "Xid" not in script:
        assert "ring buffer was read" in shut(healthy, "kernel_log", begin)["message"]
    node.say(LOST % node.pci(2))
    report = node.check(LOG, deadline_seconds=deadline)
    assert (report["verdict"], report["action"]) == ("fail", "reseat")
    assert node.pci(2) in {item["subject"].get("pci") for item in report["findings"]}
    assert nodes.evidence(report, "kernel_log") == ""


def test_damaged_journal_is_replaced_by_a_ring_buffer_that_holds_the_whole_boot_only(node):
    node.tool("journalctl", "echo 'Failed to iterate through journal: Bad message' >&2; exit 1")
    report = node.check(LOG)
    assert report["verdict"] == "pass"
    assert "kmsg (journalctl ended with status 1: Failed to iterate" in nodes.evidence(report, "kernel_log")
    ring = node.root / "dev/kmsg"
    ring.write_bytes(b"".join(ring.read_bytes().splitlines(True)[1:]))
    report = node.check(LOG)
    assert (report["verdict"], nodes.evidence(report, "kernel_log")) == ("unknown", "")


def test_grandchild_that_holds_journalctl_s_output_open_does_not_hold_us(node):
    node.tool("journalctl", RECORDS.replace("Xid", "Xyd") + "sleep 60 &\nexit 0")
    begin = time.monotonic()
    report = node.check(LOG)
    assert time.monotonic() - begin < 30
    assert nodes.evidence(report, "kernel_log") == "2 kernel log lines read from journal"


def test_flood_is_cut_and_the_runs_behind_it_read_what_did_not_fit(node, monkeypatch):
    monkeypatch.setattr(journal, "_MAX_KEPT_BYTES", 60000)
    node.say(*("nvme nvme0: I/O %d QID 3 timeout, aborting" % number for number in range(100)), LOST % node.pci(2))
    reports = [node.check(LOG, remember=True, log={"source": "journal"}) for _run in range(4)]
    assert reports[0]["verdict"] == "unknown"
    assert "more kernel lines of interest" in nodes.finding(reports[0], "kernel_log.unread")["message"]
    assert nodes.evidence(reports[0], "kernel_log") == ""
    assert (reports[-1]["verdict"], reports[-1]["action"]) == ("fail", "reseat")
    assert nodes.evidence(reports[-1], "kernel_log")


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: Xid (PCI:0000:2a:00): 13, pid=7, name=p\u00fcthon\U0001f525\u202e, Graphics Exception",
        "usb 1-1: Product: \u4e2d\u6587 \\u0000\\ud800",
    ],
)
def test_characters_of_all_scripts(no_ring, message):
    no_ring.tool("journalctl", "cat <<'EOF'\n%s\nEOF" % (RECORD % (1, 1000, message)))
    report = no_ring.check(LOG)
    assert report["verdict"] == "pass", report["findings"]
    json.dumps(report).encode("ascii")


def test_message_of_bytes_that_are_no_text(no_ring):
    plain = [*(b"NVRM: Xid (PCI:0000:2a:00): 79, pid=1, name=\xff\xfe, GPU has fallen off the bus.")]
    record = (RECORD % (1, 1000, "@")).replace('"@"', json.dumps(plain, separators=(",", ":")))
    no_ring.tool("journalctl", "cat <<'EOF'\n%s\nEOF" % record)
    assert "xid.79" in nodes.codes(no_ring.check(LOG))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("kill -SEGV $$", "", id="crashes"),
        pytest.param("head -c 3000 {real}; kill -KILL $$", "", id="killed in the middle"),
        pytest.param("head -c 3000 {real}; exec sleep 60", "did not answer", id="hangs in the middle"),
        pytest.param("trap '' TERM; sleep 60 & wait; sleep 60", "did not answer", id="hangs and ignores SIGTERM"),
        pytest.param("true", "", id="says nothing and success"),
        pytest.param(RUBBISH, "", id="prints bytes without sense"),
        pytest.param("yes '<gpu id=\"00000000:01:00.0\">'", "more than", id="prints without end"),
        pytest.param("yes >&2", "more than", id="complains without end"),
        pytest.param("echo '<?xml version=\"1.0\" ?>'; echo '<nvidia_smi_log></nvidia_smi_log>'", "", id="lists no GPU"),
        pytest.param("echo 'Failed to initialize NVML: Unknown Error'; exit 255", "Unknown Error", id="cannot start"),
    ],
)
def test_nvidia_smi_that(no_nvml, script, words, tmp_path):
    whole = tmp_path / "whole.xml"
    if "{real}" in script:
        whole.write_bytes(no_nvml.call("nvidia-smi", "-q", "-x"))
    no_nvml.tool("nvidia-smi", script.replace("{real}", str(whole)))
    begin = time.monotonic()
    report = no_nvml.check(GPU, deadline_seconds=SHORT if words == "did not answer" else LONG)
    why = shut(report, "gpu", begin)
    assert words in " ".join([why["message"], *why["evidence"]])


def test_nvidia_smi_that_may_not_be_started(no_nvml):
    no_nvml.tool("nvidia-smi", "")
    (no_nvml.folder / "bin/nvidia-smi").write_text("#!/no/such/interpreter\n")
    report = no_nvml.check(GPU)
    assert nodes.finding(report, "tool.missing")["verdict"] == "unknown"
    assert "could not be started" in nodes.finding(report, "tool.missing")["evidence"][0]


def without_pynvml() -> None:
    sys.modules["pynvml"] = None  # type: ignore[assignment]


def test_without_pynvml_nvidia_smi_is_read(node):
    def question() -> t.Any:
        without_pynvml()
        return gpu.facts(gpu.read())["source"]

    assert node.ask(question).startswith("nvidia-smi")


def test_without_pynvml_and_nvidia_smi_the_package_to_install_is_named(node):
    def question() -> t.Any:
        without_pynvml()
        return [gpu.run(gpu.Options(source=source))[0].findings[0].as_dict() for source in ("nvml", "auto")]

    (node.folder / "bin/nvidia-smi").unlink()
    by_nvml, by_auto = node.ask(question)
    assert (by_nvml["code"], by_nvml["verdict"], by_auto["code"]) == ("tool.missing", "unknown", "tool.missing")
    assert "nvidia-ml-py" in by_nvml["advice"]
    assert "nvidia-smi" in by_auto["message"]


LIBRARY_THAT = {
    "crashes": ("int nvmlInitWithFlags(unsigned f) { return *(volatile int *)0; }", "signal 11"),
    "aborts with a word": (
        '#include <stdio.h>\n#include <stdlib.h>\nint nvmlInitWithFlags(unsigned f) { fputs("assertion failed: rm\\n", stderr); abort(); }',
        "assertion failed: rm",
    ),
    "ends the process": ("#include <stdlib.h>\nint nvmlInitWithFlags(unsigned f) { exit(0); }", "without an answer"),
    "never comes back": ("int nvmlInitWithFlags(unsigned f) { volatile int go = 1; while (go); return 0; }", "did not answer"),
    "writes without end": (
        "#include <unistd.h>\nint nvmlInitWithFlags(unsigned f) { char text[65536] = {0}; for (;;) write(2, text, sizeof text); }",
        "more than",
    ),
}


@pytest.mark.skipif(not COMPILER, reason="there is no C compiler")
@pytest.mark.parametrize("fault", LIBRARY_THAT)
def test_nvml_that(node, fault, tmp_path):
    if node.nvml_problem:
        pytest.skip(node.nvml_problem)
    source, words = LIBRARY_THAT[fault]
    entry = "%s\nint nvmlInit_v2(void) { return nvmlInitWithFlags(0); }\n" % source
    (tmp_path / "bad.c").write_text(entry)
    library = node.folder / "lib/libnvidia-ml.so.1"
    library.unlink()
    argv = [COMPILER, "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-w", "-o", str(library), str(tmp_path / "bad.c")]
    subprocess.run(argv, check=True)
    begin = time.monotonic()
    report = node.check(GPU, deadline_seconds=SHORT if words == "did not answer" else LONG)
    why = shut(report, "gpu", begin)
    assert words in " ".join([why["message"], *why["evidence"]])


def test_nvml_that_cannot_be_loaded_is_replaced_by_nvidia_smi(node):
    library = node.folder / "lib/libnvidia-ml.so.1"
    library.unlink()
    library.write_text("this is no library")
    report = node.cli("check", "--checks", "gpu", "--gpus", "8", "--json")
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["facts"]["gpu"]["source"] == "nvidia-smi xml"


def test_hung_gpu_is_named_in_the_evidence(tmp_path):
    node = Node(tmp_path, "h100x8+hung_gpu")
    if node.nvml_problem:
        pytest.skip(node.nvml_problem)
    report = node.check(GPU, deadline_seconds=8)  # by then it is at GPU 2 on any machine
    assert "GPU 2" in nodes.finding(report, "tool.timeout")["evidence"][0]


def test_node_without_proc_and_sys_is_judged_by_what_it_says(node):
    shutil.rmtree(node.root / "proc")
    shutil.rmtree(node.root / "sys")
    report = node.check(remember=True)
    assert report["verdict"] == "pass", report["findings"]


def test_gpu_on_the_bus_that_the_driver_does_not_list_is_lost(node):
    device = node.root / "sys/bus/pci/devices/0000:f1:00.0"
    device.mkdir()
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    report = node.check(GPU, gpu={"expected": {}})
    assert (report["verdict"], nodes.finding(report, "gpu.lost")["subject"]["pci"]) == ("fail", "0000:f1:00")
    # A container that was given some of the GPUs sees the bus of its host.
    node.environment["NVIDIA_VISIBLE_DEVICES"] = "0,1"
    assert node.check(GPU, gpu={"expected": {}})["verdict"] == "pass"


@pytest.mark.parametrize("fault", ["gpu_lost", "gpu_lost_queries"])
def test_lost_gpu_is_named_by_address_and_by_the_memory_of_who_sat_there(tmp_path, fault):
    node = Node(tmp_path, "h100x8")
    serial = node.scenario.gpus[3]["serial"]
    node.check(GPU, remember=True)
    node.become("h100x8+" + fault)
    subject = nodes.finding(node.check(GPU, remember=True), "gpu.lost")["subject"]
    assert (subject["pci"], subject["index"], subject["serial"]) == (node.pci(3), 3, serial)
    unremembered = nodes.finding(node.check(GPU), "gpu.lost")["subject"]
    assert (unremembered["pci"], unremembered.get("serial")) == (node.pci(3), None)


def test_missing_gpu_is_named_by_the_memory(tmp_path):
    node = Node(tmp_path, "rtx5090x8")
    uuid = node.scenario.gpus[5]["uuid"]
    node.check(GPU, remember=True)
    node.become("rtx5090x8+missing_gpu")
    message = nodes.finding(node.check(GPU, remember=True), "gpu.count")["message"]
    assert message == "7 of 8 GPUs answer; an earlier run still saw GPU 5 %s %s" % (node.pci(5), uuid)


def test_errors_that_were_counted_between_two_runs_are_seen_and_quiet_counters_are_not(tmp_path):
    node = Node(tmp_path, "h100x8+ecc_climbing")
    first = nodes.finding(node.check(GPU, remember=True), "gpu.ecc_correctable")
    second = nodes.finding(node.check(GPU, remember=True), "gpu.ecc_correctable")
    assert (first["verdict"], second["verdict"]) == ("warn", "fail")
    assert "4647 more" in second["message"]
    assert "more" not in nodes.finding(node.check(GPU), "gpu.ecc_correctable")["message"]


def test_power_domains_by_number_are_those_of_the_whole_node_although_numbers_move(tmp_path):
    """NVML closes the gap: with GPUs 4 to 7 gone there is no number 4, and with 0 to 3 gone the others take their numbers."""
    node = Node(tmp_path, "rtx5090x8+psu_lost")
    domains = {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}
    report = node.check(gpu={"expected": {"count": 8, "power_domains": domains}})
    assert report["action"] == "check_power"
    assert [item["subject"].get("name") for item in report["findings"] if item["code"] == "psu.lost"] == ["b"]
