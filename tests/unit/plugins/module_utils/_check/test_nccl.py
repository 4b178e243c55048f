# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the bandwidth test is run, and what its two accounts and two settings come to together."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import nccl, nccl_run
from ansible_collections.kentino.gpu.plugins.module_utils._check.nccl_run import Plan
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nccl_tests
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import nodes
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node

GIB = 1 << 30


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path, "rtx5090x8")
    if made.nvml_problem:
        pytest.skip(made.nvml_problem)
    made.environment["KENTINO_SIM_SPEED"] = "2000"
    return made


def ask(node: Node, **options: t.Any) -> t.Dict[str, t.Any]:
    told = {"expected": {"count": node.count}, "sample_seconds": 0.5, **options}

    def question() -> t.Dict[str, t.Any]:
        check, facts = nccl.run(nccl.options_from(told))
        return report([check], simulated=facts["simulated"], facts={"nccl": facts})

    answer: t.Dict[str, t.Any] = node.ask(question)
    return answer


def table(gbps: float, ranks: int = 8, wrong: int = 0, footer: bool = True) -> str:
    """What all_reduce_perf 2.13 prints for one message of 1 GiB."""
    head = "# nThread 1 nGpus %d minBytes 1073741824 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 " % ranks
    lines = [head + "validation: 1 graph: 0"]
    lines += ["#", "# Using devices"]
    lines += [
        "#  Rank %2d Group  0 Pid  4100 on     gpu-a device %2d [0x%02x] NVIDIA GeForce RTX 5090" % (rank, rank, 0x20 + rank)
        for rank in range(ranks)
    ]
    lines += ["#", "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"]
    lines += [
        "  1073741824     268435456     float     sum      -1    67000   16.03  %6.2f      %d    67000   16.03  %6.2f      0"
        % (gbps, wrong, gbps)
    ]
    if footer:
        lines += ["# Out of bounds values : %d %s" % (wrong, "FAILED" if wrong else "OK"), "# Avg bus bandwidth    : %g " % gbps, "#", ""]
    return "\n".join(lines)


def tool(node: Node, **answers: str) -> None:
    """An all_reduce_perf of 2.13 that answers C(on) or C(off), and writes down how it was asked."""
    for mode, text in answers.items():
        (node.folder / mode).write_text(text)
    node.tool(
        "all_reduce_perf",
        'case "$*" in *-J*) echo "invalid option \'J\'"; echo "USAGE: all_reduce_perf"; exit 0;; esac\n'
        'if [ "$NCCL_P2P_DISABLE" = 1 ]; then mode=off; else mode=on; fi\n'
        'echo "$mode $*" >>%(at)s/asked\nif [ -f %(at)s/behave ]; then . %(at)s/behave; fi\ncat %(at)s/$mode' % {"at": node.folder},
    )


ONE = {"min_bytes": "1G", "max_bytes": "1G"}


@pytest.mark.parametrize(
    ("plan", "slots", "words"),
    [
        (Plan(), {}, "all_reduce_perf -b 8 -e 1G -f 2 -g 8 -c 1"),
        (
            Plan("all_gather", min_bytes="1M", max_bytes="16G", factor=4, iterations=5, check=False),
            {},
            "all_gather_perf -b 1M -e 16G -f 4 -g 8 -c 0 -n 5",
        ),
        (
            Plan(mpi_arguments=("--mca", "btl_tcp_if_include", "eth0")),
            {"node1": 8, "node2": 4},
            "mpirun -np 12 -H node1:8,node2:4 --bind-to none -x CUDA_DEVICE_ORDER --mca btl_tcp_if_include eth0 all_reduce_perf"
            " -b 8 -e 1G -f 2 -g 1 -c 1",
        ),
    ],
)
def test_command_line(plan, slots, words, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert " ".join(nccl_run.command(plan, 8, slots)) == words


def test_variables_go_to_other_hosts():
    argv = nccl_run.command(Plan(), 8, {"a": 8, "b": 8}, {"NCCL_P2P_DISABLE": "1"})
    assert "-x NCCL_P2P_DISABLE" in " ".join(argv)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"collective": "all_to_all"}, "collective is 'all_to_all'"),
        ({"max_bytes": "1 GB"}, "max_bytes is '1 GB'"),
        ({"min_bytes": "2G"}, "min_bytes 2G is above max_bytes 1G"),
        ({"factor": 1}, "factor is 1"),
        ({"hosts": ["node1:0"]}, "hosts has 'node1:0'"),
        ({"hosts": ["-x"]}, "hosts has '-x'"),
        ({"hosts": ["a", "b", "a:2"]}, "hosts names a more than once"),
        ({"hosts": ["a", "b"], "gpus": [1]}, "give one of them"),
        ({"p2p": "maybe"}, "p2p is 'maybe'"),
        ({"run_seconds": 0}, "run_seconds is 0"),
        ({"floor": {"value_gbps": 0, "message_bytes": GIB}}, "floor.value_gbps is 0"),
        ({"floor": {"value_gbps": 20}}, "floor.message_bytes is None"),
        (
            {"floor": {"value_gbps": 20, "message_bytes": 1000}},
            "floor.message_bytes is 1000, which is no size of a run from 8 to 1G by factor 2",
        ),
    ],
)
def test_wrong_option_is_told(options, words):
    with pytest.raises(ValueError, match=r"expected|above|more than once|give one|no size") as caught:
        nccl.options_from(options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("low", "high", "factor", "count"), [("8", "1G", 2, 28), ("0", "8", 2, 1), ("1K", "1M", 4, 6), ("16G", "16G", 2, 1)]
)
def test_sizes_are_the_tools(low, high, factor, count):
    assert len(Plan(min_bytes=low, max_bytes=high, factor=factor).sizes()) == count


@pytest.mark.parametrize(("name", "modes"), [("rtx5090x8", ["off", "on"]), ("l40sx4", ["off", "on"]), ("h100x8", ["on"])])
def test_both_ways_are_tried_where_only_pcie_joins_the_gpus(name, modes, tmp_path):
    node = Node(tmp_path, name)
    node.environment["KENTINO_SIM_SPEED"] = "2000"
    assert [run["p2p"] for run in ask(node)["facts"]["nccl"]["runs"]] == modes


@pytest.mark.parametrize(
    ("on", "off", "best", "environment", "codes"),
    [
        pytest.param(table(28), table(14), "on", {}, [], id="faster with"),
        pytest.param(table(28), table(28.2), "on", {}, [], id="no difference"),
        pytest.param(table(14), table(28), "off", {"NCCL_P2P_DISABLE": "1"}, ["nccl.p2p_slow"], id="slower with"),
        pytest.param(table(26), table(28), "off", {"NCCL_P2P_DISABLE": "1"}, [], id="a little slower with"),
        pytest.param(table(28, wrong=5), table(14), "off", {"NCCL_P2P_DISABLE": "1"}, ["nccl.wrong"], id="wrong with"),
        pytest.param(table(28, footer=False), table(14), "off", {"NCCL_P2P_DISABLE": "1"}, ["nccl.p2p_failed"], id="fails with"),
        pytest.param(table(28), table(14, footer=False), "on", {}, ["nccl.p2p_off"], id="fails without"),
    ],
)
def test_the_better_way_is_kept(on, off, best, environment, codes, node):
    tool(node, on=on, off=off)
    result = ask(node, **ONE)
    facts = result["facts"]["nccl"]
    assert (facts["best_p2p"], facts["best_environment"], nodes.codes(result)) == (best, environment, codes)


def test_wrong_results_on_the_default_way_fail(node):
    tool(node, on=table(28, wrong=5), off=table(14))
    result = ask(node, **ONE)
    assert (result["verdict"], result["action"]) == ("fail", "contact_vendor")
    assert "none with NCCL_P2P_DISABLE=1" in result["findings"][0]["message"]


def test_floor_is_held_against_the_better_way(node):
    tool(node, on=table(14), off=table(28))
    floor = {"value_gbps": 20.0, "message_bytes": GIB, "gpus": 8}
    assert ask(node, **ONE, floor=floor)["verdict"] == "pass"
    assert ask(node, **ONE, floor={**floor, "value_gbps": 30.0})["verdict"] == "fail"
    assert ask(node, **ONE, floor={**floor, "gpus": 4})["verdict"] == "unknown"


def test_only_the_way_that_is_asked_for(node):
    tool(node, on=table(14), off=table(28))
    assert [run["p2p"] for run in ask(node, **ONE, p2p="off")["facts"]["nccl"]["runs"]] == ["off"]
    assert [line.split()[0] for line in (node.folder / "asked").read_text().splitlines()] == ["off"]


def test_setting_of_the_caller_does_not_decide(node):
    tool(node, on=table(14), off=table(28))
    node.environment["NCCL_P2P_DISABLE"] = "1"
    ask(node, **ONE, p2p="on")
    assert (node.folder / "asked").read_text().startswith("on ")


def test_chosen_gpus_are_counted_and_shown(node):
    tool(node, on=table(14, ranks=2))
    (node.folder / "behave").write_text('echo "$CUDA_VISIBLE_DEVICES" >%s/seen' % node.folder)
    assert ask(node, **ONE, p2p="on", gpus=[1, 4])["verdict"] == "pass"
    assert "-g 2 " in (node.folder / "asked").read_text()
    assert (node.folder / "seen").read_text().count("GPU-") == 2


def test_fewer_ranks_than_gpus_is_unknown(node):
    tool(node, on=table(14, ranks=7))
    assert nodes.codes(ask(node, **ONE, p2p="on")) == ["nccl.rank_count"]


@pytest.mark.parametrize("ending", ["exit 3", "kill -9 $$", "kill -SEGV $$"])
def test_bad_end_after_a_good_table_is_no_pass(ending, node):
    tool(node, on=table(28))
    (node.folder / "behave").write_text("cat %s/on; %s" % (node.folder, ending))
    assert ask(node, **ONE, p2p="on")["verdict"] in ("unknown", "fail")


@pytest.mark.parametrize("cut", [0, 400, 900, -4])
def test_cut_output_is_no_pass(cut, node):
    tool(node, on=table(28).rstrip()[: cut or None] if cut else "")
    assert ask(node, **ONE, p2p="on")["verdict"] == "unknown"


def test_hung_run_is_ended_and_unknown(node):
    tool(node, on=table(28))
    (node.folder / "behave").write_text("trap '' TERM; sleep 300")
    result = ask(node, **ONE, p2p="on", run_seconds=0.5)
    assert (result["verdict"], result["facts"]["nccl"]["runs"][0]["outcome"]) == ("unknown", "timeout")
    assert result["facts"]["nccl"]["runs"][0]["wall_seconds"] < 5.5
    assert "tool.timeout" in nodes.codes(result)


def test_missing_tool_says_where_to_get_it(node):
    (node.folder / "bin" / "all_reduce_perf").unlink()
    result = ask(node)
    assert (result["verdict"], nodes.codes(result)) == ("unknown", ["tool.missing"])
    assert "NVIDIA/nccl-tests" in result["findings"][0]["message"]


def test_report_is_read_where_the_version_writes_one(node):
    (run,) = ask(node, p2p="on")["facts"]["nccl"]["runs"]
    assert (run["format"], len(run["rows"])) == ("json", 28)


def test_folder_of_the_report_is_taken_away(node):
    node.environment["TMPDIR"] = str(node.folder / "tmp")
    (node.folder / "tmp").mkdir()
    ask(node, p2p="on")
    assert list((node.folder / "tmp").iterdir()) == []


def accounts(node: Node) -> t.Tuple[str, str]:
    """Table and report of one run of the simulated tool."""
    path = node.folder / "report.json"
    printed = node.call("all_reduce_perf", "-b", "1M", "-e", "1G", "-f", "4", "-g", "8", "-J", str(path)).decode()
    return printed, path.read_text()


def test_table_and_report_of_one_run_agree(node, monkeypatch):
    monkeypatch.setenv("KENTINO_SIM_SPEED", "2000")
    printed, written = accounts(node)
    record, notes = nccl_run._with_report(nccl_tests.parse(printed, 0), written)
    (run,) = record.runs
    assert notes == ()
    assert (run.format, run.rank_count, run.complete) == ("json", 8, True)


@pytest.mark.parametrize(
    ("change", "code", "form"),
    [
        pytest.param(lambda text: "", "nccl.report", "2.13+", id="no report"),
        pytest.param(lambda text: text[: len(text) // 2], "nccl.report", "2.13+", id="cut report"),
        pytest.param(lambda text: text.replace('"bus_bw":2', '"bus_bw":3', 1), "nccl.disagree", "2.13+", id="another bandwidth"),
        pytest.param(
            lambda text: text.replace('"nwrong":0', '"nwrong":3', 1), "nccl.disagree", "2.13+", id="another number of wrong elements"
        ),
        pytest.param(
            lambda text: text.replace('"count":0,"okay"', '"count":4,"okay"', 1), "nccl.disagree", "2.13+", id="another sum of them"
        ),
    ],
)
def test_report_that_does_not_fit_is_told(change, code, form, node, monkeypatch):
    monkeypatch.setenv("KENTINO_SIM_SPEED", "2000")
    printed, written = accounts(node)
    assert change(written) != written
    record, notes = nccl_run._with_report(nccl_tests.parse(printed, 0), change(written))
    assert ([note[0] for note in notes], record.runs[0].format) == ([code], form)


def test_report_of_a_run_that_broke_off_is_not_believed(node, monkeypatch):
    monkeypatch.setenv("KENTINO_SIM_SPEED", "2000")
    printed, written = accounts(node)
    broken = printed[: printed.index("# Out of bounds")]
    record, _notes = nccl_run._with_report(nccl_tests.parse(broken, 0), written)
    assert not record.runs[0].complete


def test_search_over_nodes_names_the_slow_one(tmp_path):
    node = Node(tmp_path, "h100x8+nccl_slow_node")
    node.environment["KENTINO_SIM_SPEED"] = "3000"
    hosts = ["gpu-node-0%d" % number for number in (1, 2, 3, 4)]
    floor = {"value_gbps": 300.0, "message_bytes": GIB}
    result = ask(node, hosts=hosts, floor=floor, halve=True, min_bytes="1G", max_bytes="1G")
    slow = nodes.finding(result, "nccl.slow_node")
    assert (slow["subject"]["kind"], slow["subject"]["name"]) == ("node", "gpu-node-03")
    assert [one["nodes"] for one in result["facts"]["nccl"]["search"]][:2] == [hosts[:2], hosts[2:]]


def test_no_search_where_nothing_is_wrong(tmp_path):
    node = Node(tmp_path, "h100x8")
    node.environment["KENTINO_SIM_SPEED"] = "3000"
    result = ask(node, hosts=["a", "b"], halve=True, **ONE)
    assert (result["verdict"], result["facts"]["nccl"]["search"]) == ("pass", [])
    assert result["facts"]["nccl"]["argv"][:4] == ["mpirun", "-np", "16", "-H"]


def test_plan_says_what_would_be_run():
    check, facts = nccl.plan(nccl.options_from({"p2p": "both", "expected": {"count": 8}}))
    assert check.verdict == "skip"
    assert "-g 8" in " ".join(facts["argv"])
    assert dataclasses.replace(check, skipped="").verdict == "unknown"
