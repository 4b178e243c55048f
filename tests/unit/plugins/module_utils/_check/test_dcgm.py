# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the diagnostic is run. What it finds is in test_preflight_faults."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import dcgm
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import nodes
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import REPOSITORY, Node, render

BUSY = "The memory copy utilization for the GPU: 2 is greater than 10%. This may affect the results of the nvbandwidth test."
GPUS = range(8)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path, "h100x8")
    if made.nvml_problem:
        pytest.skip(made.nvml_problem)
    return made


def ask(node: Node, **options: t.Any) -> t.Dict[str, t.Any]:
    told = {"expected": {"count": node.count}, "sample_seconds": 0.1, "cool_down_seconds": 0, **options}

    def question() -> t.Dict[str, t.Any]:
        check, facts = dcgm.run(dcgm.Options(**told))
        return report([check], simulated=facts["simulated"], facts={"dcgm": facts})

    answer: t.Dict[str, t.Any] = node.ask(question)
    return answer


def document(**tests: t.Sequence[str]) -> str:
    """DCGM 4: by test an error on GPU 2, or none where it passed; C(None) where it did not run."""
    found = []
    for name, errors in tests.items():
        results = []
        for gpu in GPUS:
            wrong = [{"error_category": 0, "error_id": 36, "error_severity": 3, "warning": text} for text in errors if gpu == 2]
            results.append({"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Fail" if wrong else "Pass"})
            if wrong:
                results[-1]["warnings"] = wrong
        found.append({"name": name, "results": results, "test_summary": {"status": "Fail" if errors else "Pass"}})
    return json.dumps(
        {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": found}]}, "metadata": {"version": "4.5.0"}}
    )


def tool(node: Node, first: str, again: str = "", status: int = 0, profile: str = "exit 0") -> None:
    """A dcgmi that writes down what it is asked. The test that is run alone answers with C(again)."""
    for name, text in (("first", first), ("again", again)):
        (node.folder / name).write_text(text)
    script = 'echo "$*" >>%s/asked\ncase "$1" in profile) %s;; esac\n' % (node.folder, profile)
    script += 'case "$*" in *nvbandwidth*) cat %s/again; exit 0;; esac\ncat %s/first; exit %d' % (node.folder, node.folder, status)
    node.tool("dcgmi", script)


def asked(node: Node) -> t.List[str]:
    return (node.folder / "asked").read_text().splitlines()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "diag -r 3 -j"),
        ({"level": 1}, "diag -r 1 -j"),
        ({"level": 2, "gpus": [0, 3]}, "diag -r 2 -j -i 0,3"),
    ],
)
def test_command_line(options, words):
    assert " ".join(dcgm.command(dcgm.Options(**options))[1:]) == words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 5}, "level is 5, expected one of 1, 2, 3, 4"),
        ({"run_seconds": 0}, "run_seconds is 0"),
        ({"errors": {"memory": {}}}, "errors has the key 'memory'"),
        ({"errors": {"63": {"severity": "bad"}}}, "severity 'bad'"),
    ],
)
def test_wrong_option_is_told(options, words):
    with pytest.raises(ValueError, match=r"expected|not one of") as caught:
        dcgm.Options(**options)
    assert words in str(caught.value)


@pytest.mark.parametrize(("level", "seconds"), [(1, 300), (2, 1800), (3, 3600), (4, 10800)])
def test_each_level_has_its_deadline(level, seconds, node, monkeypatch):
    asked_for = []
    monkeypatch.setattr(dcgm, "_diagnose", lambda options, session, argv, limit: asked_for.append(limit) or 1 / 0)

    def question():
        for limits in ({}, {"dcgm_seconds_level%d" % level: 7}):
            with contextlib.suppress(ZeroDivisionError):
                dcgm.run(dcgm.Options(level=level, limits=limits, pause_profiling=False))
        return asked_for

    assert node.ask(question) == [seconds, 7]


def test_profiling_is_paused_and_resumed(node):
    tool(node, document(software=[], memory=[]))
    result = ask(node)
    assert (result["verdict"], nodes.codes(result)) == ("pass", [])
    assert asked(node) == ["profile --pause", "diag -r 3 -j", "profile --resume"]


def test_profiling_is_left_alone_where_asked(node):
    tool(node, document(memory=[]))
    ask(node, pause_profiling=False)
    assert asked(node) == ["diag -r 3 -j"]


def test_profiling_that_cannot_be_paused_is_a_remark_and_not_resumed(node):
    tool(node, document(memory=[]), profile="echo 'Error: unable to pause'; exit 220")
    result = ask(node)
    assert (result["verdict"], nodes.codes(result)) == ("pass", ["dcgm.profiling"])
    assert "Error: unable to pause" in result["findings"][0]["message"]
    assert "profile --resume" not in asked(node)


def test_profiling_that_stays_paused_is_a_warning(node):
    tool(node, document(memory=[]), profile='[ "$2" = --pause ]; exit $?')
    result = ask(node)
    assert (result["verdict"], nodes.codes(result)) == ("warn", ["dcgm.profiling_paused"])


MODULE = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.kentino.gpu.plugins.module_utils._check import dcgm
dcgm.run(dcgm.Options())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_profiling_is_resumed_also_when_the_module_is_killed(number, node):
    tool(node, "")
    script = 'echo "$*" >>%s/asked\ncase "$1" in diag) sleep 300;; esac' % node.folder
    node.tool("dcgmi", script)
    child = subprocess.Popen(
        [sys.executable, "-c", MODULE, str(REPOSITORY / ".collections")],
        env={**os.environ, **render.environment(str(node.folder))},
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not (node.folder / "asked").exists() or "diag -r 3 -j" not in asked(node):
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(child.pid, number)
    child.wait(60)
    until = time.monotonic() + 60
    while asked(node)[-1] != "profile --resume":
        assert time.monotonic() < until, asked(node)
        time.sleep(0.02)


def test_a_test_known_to_fail_after_another_is_run_again_alone(node):
    """NVIDIA/DCGM#272."""
    tool(node, document(software=[], diagnostic=[], nvbandwidth=[BUSY]), document(software=[], nvbandwidth=[]), status=226)
    result = ask(node)
    assert (result["verdict"], nodes.codes(result)) == ("pass", ["dcgm.retried"])
    assert [line for line in asked(node) if line.startswith("diag")] == ["diag -r 3 -j", "diag -r nvbandwidth -j"]
    assert BUSY in result["findings"][0]["evidence"]
    first, again = result["facts"]["dcgm"]["runs"]
    assert [test["status"] for test in first["tests"]] == ["pass", "pass", "fail"]
    assert [test["status"] for test in again["tests"]] == ["pass", "pass"]


@pytest.mark.parametrize(
    ("first", "again", "runs", "verdict"),
    [
        pytest.param({"diagnostic": [], "nvbandwidth": [BUSY]}, {"nvbandwidth": [BUSY]}, 2, "fail", id="fails again"),
        pytest.param({"diagnostic": [], "nvbandwidth": [BUSY]}, {}, 2, "fail", id="gives no answer"),
        pytest.param({"nvbandwidth": [BUSY]}, {"nvbandwidth": []}, 1, "fail", id="with nothing before it"),
        pytest.param({"diagnostic": [], "nvbandwidth": ["broken"]}, {"nvbandwidth": []}, 1, "fail", id="for another reason"),
        pytest.param({"diagnostic": [], "nvbandwidth": [BUSY, "broken"]}, {"nvbandwidth": []}, 1, "fail", id="for one reason more"),
        pytest.param({"diagnostic": ["broken"], "nvbandwidth": [BUSY]}, {"nvbandwidth": []}, 2, "fail", id="and another test too"),
    ],
)
def test_it_is_no_excuse_for_anything_else(first, again, runs, verdict, node):
    tool(node, document(**first), document(**again) if again else "", status=226)
    result = ask(node)
    assert result["verdict"] == verdict
    assert len(result["facts"]["dcgm"]["runs"]) == runs


def test_no_second_run_where_it_is_not_wanted(node):
    tool(node, document(diagnostic=[], nvbandwidth=[BUSY]), status=226)
    assert ask(node, retry=False)["verdict"] == "fail"
    assert len([line for line in asked(node) if line.startswith("diag")]) == 1


def test_what_a_profile_requires_and_did_not_run_is_unknown(node):
    tool(node, document(software=[], memory=[]))
    assert ask(node, required_tests=["memory"])["verdict"] == "pass"
    result = ask(node, required_tests=["memory", "PCIe"])
    assert (result["verdict"], nodes.codes(result)) == ("unknown", ["dcgm.required"])


def test_fewer_gpus_than_there_are_is_unknown(node):
    text = json.loads(document(memory=[]))
    del text["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["results"][5]
    tool(node, json.dumps(text))
    assert "dcgm.gpu_count" in nodes.codes(ask(node))


def test_level_1_of_dcgm_3_names_no_gpu(node):
    tests = [{"name": "Denylist", "results": [{"status": "Pass"}]}]
    tool(node, json.dumps({"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}], "version": "3.3.9"}}))
    assert ask(node, level=1)["verdict"] == "pass"
    assert "dcgm.gpu_count" in nodes.codes(ask(node, level=2))


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.9, 0.999])
def test_cut_answer_is_unknown(cut, node):
    text = document(software=[], memory=[])
    tool(node, text[: int(len(text) * cut)])
    assert ask(node)["verdict"] == "unknown"


@pytest.mark.parametrize("status", [205, 226, 217, 1])
def test_bad_status_with_a_clean_answer_is_no_pass(status, node):
    tool(node, document(software=[], memory=[]), status=status)
    assert ask(node)["verdict"] in ("unknown", "fail")


def test_mig_on_any_gpu_stops_it_also_on_others(tmp_path):
    node = Node(tmp_path, "h100x8+mig_enabled")
    tool(node, document(memory=[]))
    result = ask(node, gpus=[5])
    assert nodes.codes(result) == ["dcgm.mig"]
    assert not (node.folder / "asked").exists()


def test_error_table_is_the_inventorys(node):
    text = document(memory=[BUSY])
    tool(node, text, status=226)
    assert ask(node)["verdict"] == "fail"
    assert ask(node, errors={36: {"severity": "info", "action": "none"}})["verdict"] == "pass"
