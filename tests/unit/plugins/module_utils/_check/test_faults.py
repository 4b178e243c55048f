# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every fault that the simulated node can have keeps the gate shut, with the right GPU and what an expert would do first."""

from __future__ import annotations

import ctypes.util
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._report import policy
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import nodes
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node, scenario


class Row(t.NamedTuple):
    """What a fault comes to. C(gpu): number in the scenario; C(code): of the finding that stands first."""

    verdict: str
    action: str = "none"
    code: str = ""
    gpu: t.Optional[int] = None
    kind: str = "gpu"  # of the subject
    words: str = ""  # in the message of that finding
    also: t.Tuple[str, ...] = ()  # other findings that must not be missing
    options: t.Mapping[str, t.Any] = {}
    runs: int = 1  # with a memory, where only a second reading can tell


# A hang is a hang after any time.
HANGS = {"gpu": {"deadline_seconds": 0.6}}
JOURNAL_HANGS = {"log": {"deadline_seconds": 0.6}}
IDLE = {"gpu": {"expected": {"idle": True}}}

TABLE: t.Mapping[str, Row] = {
    # Healthy, whatever it looks like.
    "": Row("pass", options=IDLE),
    "app_xid": Row("pass", "look_at_code", "xid.13", 0),
    "old_boot_xid79": Row("pass"),
    "no_journal": Row("pass"),
    "no_nvml": Row("pass"),
    # Gone from the bus.
    "gpu_lost": Row("fail", "reseat", "gpu.lost", 3, words="lost", also=("xid.79",)),
    "gpu_lost_queries": Row("fail", "reseat", "gpu.lost", 3, also=("xid.79",)),
    "gpu_lost_old_tool": Row("fail", "reseat", "gpu.lost", 3, also=("xid.79", "gpu.incomplete")),
    "xid79_only": Row("fail", "reseat", "xid.79", 1, words="fallen off the bus"),
    "missing_gpu": Row("fail", "reseat", "gpu.count", kind="node", words="7 of 8"),
    "psu_lost": Row("fail", "check_power", "psu.lost", kind="psu", words="4 GPUs lost within", also=("gpu.count", "xid.79")),
    # Memory.
    "ecc_uncorrectable": Row("fail", "replace", "gpu.sram_threshold", 0, also=("gpu.ecc_uncorrectable",)),
    "ecc_climbing": Row("fail", "contact_vendor", "gpu.ecc_correctable", -2, words="4647 more", runs=2),
    "remap_failed": Row("fail", "replace", "gpu.row_remap_failed", 2, also=("xid.64",)),
    "remap_pending": Row("fail", "reset_gpu", "gpu.reset_required", 2, words="Drain and Reset", also=("gpu.row_remap_pending", "xid.48")),
    # The driver asks for it.
    "gpu_needs_reset": Row("fail", "reset_gpu", "gpu.reset_required", 1, also=("xid.95",)),
    "recovery_reset": Row("fail", "reset_gpu", "gpu.reset_required", 3, words="'Reset'"),
    # Heat and power.
    "hot_gpu": Row("fail", "check_cooling", "gpu.temperature", 2, also=("gpu.hw_slowdown",)),
    "power_brake": Row("fail", "check_power", "gpu.hw_slowdown", 1, words="power brake"),
    # Links.
    "link_x4": Row("fail", "reseat", "gpu.pcie_width", 1, words="x4"),
    "pcie_replays": Row("warn", "reseat", "gpu.pcie_replays", 3, words="311 more", runs=2),
    "nvlink_down": Row("fail", "reset_gpu", "gpu.nvlink_down", 4, words="not active: 11", also=("xid.74",)),
    "nvswitch_fatal": Row("fail", "reset_gpu", "sxid.20034", kind="nvswitch", words="link 32"),
    "fabric_not_ready": Row("fail", "reboot_node", "gpu.fabric", 0, words="In Progress"),
    # Use.
    "foreign_process": Row("fail", "look_at_code", "gpu.foreign_process", 2, words="pid 48213 python3", options=IDLE),
    "mig_enabled": Row("warn", "reset_gpu", "gpu.mig", 0, options={"gpu": {"expected": {"mig": False}}}),
    # Nothing can be told.
    "driver_not_loaded": Row("unknown", "reboot_node", "driver.not_loaded", kind="node"),
    "version_mismatch": Row("unknown", "reboot_node", "nvml.version_mismatch", kind="node", also=("driver.api_mismatch",)),
    "nvml_error": Row("unknown", "reboot_node", "nvml.init_failed", kind="node"),
    "no_nvidia_smi": Row("unknown", "none", "tool.missing", kind="tool", words="nvidia-smi"),
    "cut_output": Row("unknown", "none", "tool.garbled", kind="tool"),
    "hung_tool": Row("unknown", "reboot_node", "tool.timeout", kind="tool", words="unresponsive", options=HANGS),
    "hung_tool_ignore_term": Row("unknown", "reboot_node", "tool.timeout", kind="tool", options=HANGS),
    "hung_gpu": Row("fail", "reboot_node", "xid.119", 2, words="cannot reset", also=("tool.timeout",), options=HANGS),
    "garbage_journal": Row("unknown", "none", "tool.garbled", kind="tool", words="kernel record"),
    "hung_journal": Row("unknown", "none", "tool.timeout", kind="tool", words="journalctl", options=JOURNAL_HANGS),
    "no_kernel_log": Row("unknown", "none", "kernel_log.unread", kind="tool", words="No journal files"),
}
# What rubbish holds is chance; that it opens no gate and is called rubbish is not.
GARBLED = "garbled_output"
# Comes some seconds after the node, and so depends on how fast this machine is: test_memory has faults that come later.
LATER = "xid79_soon"

# Show only in what these tools print or in what the GPUs do meanwhile: for the tests of the checks that run them.
UNDER_LOAD = ("burn_", "dcgm_", "nccl_", "torch_", "dryrun_")

CASES = [
    pytest.param(node, fault, id="%s+%s" % (node, fault) if fault else node)
    for node in nodes.NODES
    for fault in TABLE
    if not fault or scenario.can_have(node, fault)
]


def test_every_fault_has_its_row():
    assert {*TABLE, GARBLED, LATER} - {""} == {fault for fault in scenario.faults() if not fault.startswith(UNDER_LOAD)}


@pytest.fixture(scope="module")
def no_driver_here():
    if ctypes.util.find_library("nvidia-ml"):
        pytest.skip("this machine has a driver of its own, which would answer")


@pytest.mark.parametrize(("name", "fault"), CASES)
def test_fault(name, fault, tmp_path, request):
    row = TABLE[fault]
    node = Node(tmp_path, "+".join(filter(None, (name, fault))))
    if node.nvml_problem:
        pytest.skip(node.nvml_problem)
    if "libnvidia-ml.so.1" in node.scenario.missing:
        request.getfixturevalue("no_driver_here")
    options = {key: dict(value) for key, value in row.options.items()}
    options.setdefault("gpu", {}).setdefault("expected", {})
    options["gpu"]["expected"] = {"count": node.count, **options["gpu"]["expected"]}
    for _run in range(row.runs):
        report = node.check(remember=row.runs > 1, **options)
    decision = policy.decide(report)

    assert (report["verdict"], report["action"]) == (row.verdict, row.action), report["findings"]
    assert decision.open == (row.verdict == "pass"), decision.reasons
    assert report["simulated"]
    if row.code:
        first = report["findings"][0]
        assert first["code"] == row.code
        assert row.words in first["message"]
        assert first["subject"]["kind"] == row.kind
        assert first["subject"].get("pci") == (node.pci(row.gpu) if row.gpu is not None else first["subject"].get("pci"))
        assert set(row.also) <= set(nodes.codes(report))
    else:
        assert not nodes.codes(report, worse_than="pass")


@pytest.mark.parametrize("name", nodes.NODES)
def test_garbled_output_of_nvidia_smi_is_called_so_and_opens_nothing(name, tmp_path, no_driver_here):
    node = Node(tmp_path, "%s+%s" % (name, GARBLED))
    report = node.check()
    assert "tool.garbled" in nodes.codes(report)
    assert nodes.evidence(report, "gpu") == ""
    assert not policy.decide(report).open
    # The lines for people stay lines, whatever the tool printed.
    assert all(item["message"].isprintable() for item in report["findings"])
