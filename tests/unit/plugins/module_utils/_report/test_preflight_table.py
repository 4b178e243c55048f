# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._report import preflight_table
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check, Finding, Subject, report
from ansible_collections.kentino.gpu.plugins.module_utils._report.table import SIMULATED

CARD = Subject("gpu", index=2, pci="0000:3a:00", serial="165")
WRONG = Finding("burn.errors", "critical", CARD, "GPU 2 computed wrong results", "replace")
HEALTH = report([Check("gpu", "8 GPUs read through nvml", metrics={"0": {"temperature_c": 31}, "1": {"temperature_c": 34}})])
TESTS = [{"name": name, "status": status} for name, status in (("memory", "pass"), ("software", "pass"), ("nvlink", "skip"))]
DCGM = report(
    [Check("dcgm", "2 tests ran on 8 GPUs")],
    facts={
        "dcgm": {
            "level": 3,
            "runs": [
                {"wall_seconds": 640.2, "tests": TESTS},
                {"wall_seconds": 60},
            ],
        }
    },
)
BURN = report(
    [
        Check(
            "burn",
            "3 GPUs burnt, 9 progress records",
            metrics={"gpus": {str(gpu): {"gflops": 50000.0 + gpu, "temperature_max_c": 60 + gpu} for gpu in range(3)}},
        )
    ],
    facts={"burn": {"wall_seconds": 3632.0}},
)
NCCL = report(
    [Check("nccl", "1 runs", metrics={"busbw_gbps": 480.46, "message_bytes": 16 << 30, "floor_gbps": 460})],
    facts={"nccl": {"runs": [{"wall_seconds": 4.2}], "best_p2p": "off"}},
)
DRYRUN = report(
    [
        Check(
            "dryrun",
            "8 ranks",
            metrics={
                "ranks_finished": 3,
                "step_seconds": 0.512,
                "compute_seconds": {"0": 0.40, "1": 0.41, "2": 0.50},
                "peak_reserved_bytes": 12 << 30,
            },
        )
    ],
    facts={"dryrun": {"wall_seconds": 41.0, "device": "cuda"}},
)
OPEN = {"open": True, "msg": "gate open: gpu, burn ran", "notes": ["check x did not run: y"], "findings": []}


def shut(*findings: Finding, **more: t.Any) -> t.Dict[str, t.Any]:
    found = [finding.as_dict() for finding in findings]
    return {"open": False, "msg": "gate shut: x", "reasons": [preflight_table.sentence(item) for item in found], "findings": found, **more}


def cells(line: str) -> t.List[str]:
    return [cell for cell in line.split("  ") if cell]


@pytest.mark.parametrize(
    ("step", "result", "time", "words"),
    [
        ("health", HEALTH, "-", "8 GPUs read through nvml, hottest 34 C"),
        ("dcgm", DCGM, "11:40", "level 3: 2 passed, 1 skipped (nvlink)"),
        ("burn", BURN, "1:00:32", "3 GPUs, at least 50000, median 50001 Gflop/s, hottest 62 C"),
        ("nccl", NCCL, "4.2 s", "480.5 GB/s at 16 GiB, floor 460 (with NCCL_P2P_DISABLE=1)"),
        ("dryrun", DRYRUN, "41 s", "3 ranks, 0.512 s a step, slowest rank 2 +22 %, 12.0 GiB at most"),
        ("own", report([Check("own", "something was seen")]), "-", "something was seen"),
        ("own", {"failed": True, "msg": "it broke off"}, "-", "it broke off"),
        ("own", {}, "-", "nothing was measured"),
    ],
)
def test_row_of_a_step(step, result, time, words):
    row = preflight_table.lines({"gpu-1": ({step: result}, OPEN)})[1]
    assert [cell.strip() for cell in cells(row)] == ["gpu-1", step, result.get("verdict", "unknown"), time, words]


def test_step_that_failed_says_what_it_measured_and_what_was_wrong():
    burn = dict(BURN, verdict="fail", findings=[dict(WRONG.as_dict(), check="burn")])
    row = preflight_table.lines({"gpu-1": ({"burn": burn}, shut(WRONG))})[1]
    assert row.endswith("hottest 62 C; GPU 2 computed wrong results")


def test_step_that_was_not_started_says_why():
    skipped = report([Check("nccl", "", skipped="not started, because burn failed")])
    lines = preflight_table.lines(
        {"gpu-1": ({"nccl": skipped, "baseline": report([Check("baseline", "", skipped="not asked for")])}, OPEN)}
    )
    assert [cells(line)[-1].strip() for line in lines[1:-2]] == ["not started, because burn failed"]


def test_open_gate_is_told_too():
    assert preflight_table.lines({"gpu-1": ({}, OPEN)}) == [
        "host   step  verdict  time  measured",
        "gpu-1  gate  open           gpu, burn ran",
        "gate open on this host",
    ]


def test_shut_gate_begins_with_the_action_and_names_the_code():
    lines = preflight_table.lines({"gpu-1": ({}, OPEN), "gpu-2": ({}, shut(*[WRONG] * 6))})
    assert lines[2].startswith("gpu-2  gate  SHUT           replace GPU 2 0000:3a:00 serial 165: GPU 2 computed wrong results")
    assert lines[2].endswith("[burn.errors]")
    assert [cells(line)[0] for line in lines[3:6]] == ["gpu-2"] * 3
    assert lines[5].endswith("; and 2 more")
    assert lines[-1] == "gate open on 1 of 2 hosts, shut on gpu-2"


@pytest.mark.parametrize("gate", [{}, None, {"open": "yes"}, {"open": 1}, []])
def test_host_without_the_gates_word_is_shut(gate):
    lines = preflight_table.lines({"gpu-1": ({}, gate)})
    assert lines[1].split()[1:3] == ["gate", "SHUT"]
    assert "no result" in lines[1]


def test_waived_finding_and_unused_waiver_are_told_once_for_all_hosts():
    waived = {**OPEN, "findings": [dict(WRONG.as_dict(), waived={"until": "2026-12-31"})], "notes": ["waiver 1 is unused"]}
    lines = preflight_table.lines({"gpu-1": ({}, waived), "gpu-2": ({}, waived)})
    assert lines[-3:-1] == [
        "note: 2 hosts: burn.errors on GPU 2 0000:3a:00 serial 165 is waived until 2026-12-31",
        "note: 2 hosts: waiver 1 is unused",
    ]


def test_many_good_hosts_take_a_line_each_and_the_bad_one_all_of_its():
    hosts: t.Dict[str, t.Any] = {"gpu-%02d" % number: ({"health": HEALTH, "burn": BURN, "nccl": NCCL}, OPEN) for number in range(30)}
    hosts["gpu-99"] = ({"health": HEALTH, "burn": BURN}, shut(WRONG))
    lines = preflight_table.lines(hosts)
    assert len(lines) == 1 + 30 + 3 + 1
    assert "burn 3 GPUs, at least 50000" in lines[1]
    assert "nccl 480.5 GB/s at 16 GiB, floor 460" in lines[1]


def test_simulated_node_is_told_as_such():
    assert preflight_table.lines({"gpu-1": ({"health": dict(HEALTH, simulated=True)}, OPEN)})[0] == SIMULATED


@pytest.mark.parametrize("odd", [None, "x", 7, [], {}, [None], {"x": None}, {"gpu": 3}, float("nan"), float("inf"), True])
@pytest.mark.parametrize("step", ["health", "dcgm", "burn", "nccl", "dryrun", "own"])
def test_no_result_raises(step, odd):
    spoilt = [odd, {"verdict": odd, "checks": odd, "findings": odd, "metrics": odd, "facts": odd}]
    spoilt += [{"metrics": {step: odd}, "facts": {step: odd}}, {"metrics": {step: {"gpus": odd, "compute_seconds": odd, "busbw_gbps": 1}}}]
    spoilt += [{"facts": {step: {"runs": odd, "wall_seconds": odd}}}, {"facts": {step: {"runs": [{"tests": odd}]}}}]
    for result in spoilt:
        assert len(preflight_table.lines({"gpu-1": ({step: result}, {"open": odd, "reasons": odd, "notes": odd})})) >= 3


def test_text_of_a_node_stays_on_its_line():
    lines = preflight_table.lines({"gpu-1": ({"own": report([Check("own", "a\nb\x1b[31m")])}, OPEN)})
    assert "\x1b" not in "".join(lines)
    assert not any("\n" in line for line in lines)
