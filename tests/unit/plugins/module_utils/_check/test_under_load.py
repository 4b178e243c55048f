# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every step that loads the GPUs has in common: whom it refuses, whom it names, what it sees beside the tool."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import under_load
from ansible_collections.kentino.gpu.plugins.module_utils._check.under_load import Options, Session
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import GpuProcess, GpuReading
from ansible_collections.kentino.gpu.plugins.module_utils._probe.watch import Watched
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Finding, Subject
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import H100, RTX_5090


def session(*gpus: t.Any, complete: bool = True, error: t.Optional[str] = None, **options: t.Any) -> Session:
    """With a reading that was not taken."""
    made = Session("burn", Options(**options), 600)
    made.first = GpuReading("nvml", gpus, complete=complete, error=error, error_kind="timeout" if error else None)
    return made


def card(index: int, **changes: t.Any) -> t.Any:
    names = {"index": index, "pci": "0000:%02x:00" % (0x10 + index), "uuid": "GPU-%d" % index, "serial": "16%d" % index}
    return dataclasses.replace(H100, **{**names, **changes})


XORG = GpuProcess(900, "/usr/lib/xorg/Xorg", "graphics", 80)
TRAINING = GpuProcess(4711, "python3 train.py", "compute", 70000)


@pytest.mark.parametrize(
    ("gpus", "options", "expected"),
    [
        pytest.param([card(0), card(1)], {}, [], id="idle"),
        pytest.param([card(0), card(1, processes=(TRAINING,))], {}, [("fail", 1, "pid 4711 python3 train.py")], id="a training"),
        pytest.param([card(0), card(1, processes=(TRAINING,))], {"gpus": [0]}, [], id="a training on a GPU that is not loaded"),
        pytest.param([card(0, processes=(XORG,))], {}, [("fail", 0, "pid 900 /usr/lib/xorg/Xorg")], id="a display"),
        pytest.param([card(0, processes=(XORG,))], {"expected": {"allowed_processes": ["Xorg"]}}, [], id="a display that is allowed"),
        pytest.param(
            [card(0, processes=(GpuProcess(7),))], {}, [("fail", 0, "pid 7 (name not told)")], id="a process of another container"
        ),
        pytest.param([card(0, processes=None)], {}, [("unknown", 0, "is not told")], id="processes not told"),
        pytest.param(
            [card(0, memory_used_mib=5000, memory_reserved_mib=0)], {}, [("unknown", 0, "no process listed")], id="memory held by nobody"
        ),
        pytest.param([card(0), card(1, state="lost", processes=None)], {}, [], id="a lost GPU is nobody's"),
    ],
)
def test_gpus_in_use_are_refused(gpus, options, expected):
    found = session(*gpus, **options).refusal()
    assert [(one.verdict, one.subject.index) for one in found] == [row[:2] for row in expected]
    for one, row in zip(found, expected):
        assert row[2] in one.message
        assert (one.code, "nothing was run" in one.message) == ("burn.busy", True)


@pytest.mark.parametrize(
    ("gpus", "more"),
    [
        pytest.param([], {"error": "NVML did not answer within 20 s and was killed", "complete": False}, id="driver hangs"),
        pytest.param([card(0)], {"complete": False}, id="not all were read"),
    ],
)
def test_what_cannot_be_read_is_refused(gpus, more):
    found = session(*gpus, **more).refusal()
    assert "burn.busy" in [one.code for one in found]
    assert {one.verdict for one in found} <= {"unknown", "fail"}


def test_a_finding_gets_every_name_that_the_gpu_had():
    made = session(card(0), card(1))
    for about in (Subject("gpu", pci="0000:11:00"), Subject("gpu", index=1), Subject("gpu", serial="161"), Subject("gpu", uuid="GPU-1")):
        named = made.named(Finding("xid.79", "critical", about, "gone")).subject
        assert (named.index, named.pci, named.uuid, named.serial) == (1, "0000:11:00", "GPU-1", "161")


def test_a_name_that_is_none_of_ours_is_left():
    about = Subject("gpu", pci="0000:99:00")
    assert session(card(0)).named(Finding("xid.79", "critical", about, "gone")).subject == about


@pytest.mark.parametrize(
    ("options", "number", "seen", "index"),
    [
        ({}, 1, 3, 1),
        ({}, 1, 2, None),  # CUDA left one out: which?
        ({"gpus": [0, 2]}, 1, 2, 2),
        ({"gpus": [0, 2]}, 0, 1, 0),  # chosen by UUID, CUDA keeps their order and stops at the first that it does not know
        ({}, 5, 3, None),
        ({}, None, 3, None),
    ],
)
def test_number_of_the_tool(options, number, seen, index):
    made = session(card(0), card(1), card(2), **options)
    assert made.of_number(number, seen).index == index


def test_a_lost_gpu_has_no_number():
    made = session(card(0), card(1, state="lost"), card(2))
    assert made.of_number(1, 2).index == 2


def test_chosen_gpus_are_shown_by_uuid():
    made = session(card(0), card(1), card(2), gpus=[2, 1])
    assert made.environment() == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}
    assert session(dataclasses.replace(RTX_5090, index=3, uuid=None), gpus=[3]).environment()["CUDA_VISIBLE_DEVICES"] == "3"


@pytest.mark.parametrize(
    ("outcome", "code", "action"),
    [
        ("ended", None, None),
        ("stopped", None, None),
        ("missing", "tool.missing", "none"),
        ("denied", "tool.denied", "none"),
        ("timeout", "tool.timeout", "none"),
        ("unkillable", "tool.timeout", "reboot_node"),
        ("lost", "tool.lost", "none"),
        ("truncated", "tool.truncated", "none"),
    ],
)
def test_every_end_of_a_tool_has_its_finding(outcome, code, action):
    found = under_load.outcome_finding(Watched(("/opt/x/gpu_burn", "600"), outcome, None, b"", b"", 661.0))
    assert (found.code, found.action, found.verdict, found.subject.name) == (code, action, "unknown", "gpu_burn") if code else found is None


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path, "h100x8")
    if made.nvml_problem:
        pytest.skip(made.nvml_problem)
    return made


def around(node: Node, script: str, **options: t.Any) -> t.List[t.List[t.Any]]:
    """What is found beside a tool."""
    node.tool("work", script)

    def question():
        with Session("burn", Options(sample_seconds=0.1, **options), 10) as made:
            assert made.refusal() == ()
            made.run(["work"], 10, stops=False)
            return [[one.code, one.verdict, one.subject.index] for one in made.findings()]

    found: t.List[t.List[t.Any]] = node.ask(question)
    return found


def test_nothing_is_found_where_nothing_happened(node):
    assert around(node, "sleep 0.1") == []


def test_what_the_kernel_logged_before_is_not_of_this_run(tmp_path):
    assert around(Node(tmp_path, "h100x8+xid79_only"), "sleep 0.1") == []


def say(node: Node, line: str) -> str:
    """A script that lets the kernel log a line."""
    (node.folder / "say.py").write_text(
        "import time\nrow = open(%r).read().splitlines()[-1].split('\\t')\nnow = int(time.time() * 1e6)\n"
        "open(%r, 'a').write('0\\t%%d\\t%%d\\t4\\tkernel\\t%%s\\n' %% (now, int(row[2]) + now - int(row[1]), %r))\n"
        % (str(node.folder / "kernel.log"), str(node.folder / "kernel.log"), line)
    )
    return "python3 %s/say.py" % node.folder


def test_what_the_kernel_logs_meanwhile_is_and_names_the_gpu(node):
    line = "NVRM: Xid (PCI:%s): 79, GPU has fallen off the bus." % node.pci(6)
    assert around(node, say(node, line)) == [["xid.79", "fail", 6]]


def test_policy_of_the_inventory_holds(node):
    line = "NVRM: Xid (PCI:%s): 79, GPU has fallen off the bus." % node.pci(6)
    assert around(node, say(node, line), xid_policy={"79": {"severity": "info"}}) == [["xid.79", "pass", 6]]


def test_traces_of_our_own_kill_are_no_fault(node):
    line = "NVRM: Xid (PCI:%s): 45, pid=4711, name=work, Ch 00000008" % node.pci(2)
    node.tool("work", say(node, line) + "; echo said; exec sleep 60")

    def question():
        with Session("burn", Options(sample_seconds=0.1), 10) as made:
            assert made.run(["work"], 50, lambda line: "seen").outcome == "stopped"
            return [[one.code, one.verdict, one.action] for one in made.findings()]

    assert node.ask(question) == [["xid.45", "pass", "none"]]
