# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What burn-in, diagnostic and bandwidth test find of each fault that shows under load: none opens the gate, no healthy node shuts it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import burn, dcgm, nccl
from ansible_collections.kentino.gpu.plugins.module_utils._check.nccl_run import Plan
from ansible_collections.kentino.gpu.plugins.module_utils._report import policy
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import nodes
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node, scenario

GIB = 1 << 30


class Row(t.NamedTuple):
    """What a step comes to on a node with this fault. C(gpu): number in the scenario; C(code): of the finding that stands first."""

    verdict: str
    action: str = "none"
    code: str = ""
    gpu: t.Optional[int] = None
    words: str = ""  # in the message of that finding
    also: t.Tuple[str, ...] = ()  # other findings that must not be missing
    options: t.Mapping[str, t.Any] = {}
    bases: t.Tuple[str, ...] = ("h100x8",)


EVERYWHERE = ("h100x8", "rtx5090x8", "l40sx4")
GRACE = {"seconds": 1}
FLOOR = {"floor": {"value_gbps": 440, "message_bytes": GIB, "gpus": 8}}
HOSTS = Plan(hosts=("gpu-node-01", "gpu-node-02", "gpu-node-03", "gpu-node-04"), min_bytes="1M")
NODES_FLOOR = {"plan": HOSTS, "halve": True, "floor": {"value_gbps": 300, "message_bytes": GIB}}

BURN: t.Mapping[str, Row] = {
    "": Row("pass", bases=EVERYWHERE),
    "no_nvml": Row("pass"),
    "no_journal": Row("pass"),
    "xid79_only": Row("pass"),  # logged before it began: the health check tells
    "burn_errors": Row("fail", "replace", "burn.errors", 2, also=("burn.stopped",)),
    "burn_faulty": Row("fail", "replace", "burn.errors", 1, also=("burn.stopped",)),
    "burn_died": Row("fail", "reset_gpu", "burn.died", 3, also=("burn.stopped",)),
    "burn_xid48": Row("fail", "reset_gpu", "xid.48", 2, also=("burn.stopped", "gpu.ecc_uncorrectable", "gpu.row_remap_pending")),
    "burn_xid79": Row("fail", "reseat", "xid.79", 1, also=("burn.stopped", "gpu.lost")),
    "burn_xid94": Row("warn", "restart_job", "xid.94", 3),
    "burn_ecc": Row("fail", "reset_gpu", "gpu.ecc_uncorrectable", 2, also=("burn.stopped",)),
    "ecc_climbing": Row("fail", "contact_vendor", "gpu.ecc_correctable", -2),
    "pcie_replays": Row("warn", "reseat", "gpu.pcie_replays", 3),
    "burn_link_down": Row("fail", "reseat", "gpu.pcie_width", 3, words="x8", also=("gpu.pcie_gen",)),
    "burn_throttled": Row("fail", "check_cooling", "load.throttled", 1, words="too hot", also=("burn.slow", "load.low_clock")),
    "burn_too_hot": Row("fail", "check_cooling", "gpu.temperature", 2, words="slowdown begins at"),
    "burn_slow_gpu": Row("warn", "check_power", "load.low_power", 2, also=("burn.slow",)),
    "burn_low_power": Row("warn", "check_power", "load.low_power", words="on each of the 8 GPUs"),
    "burn_no_work": Row("unknown", "none", "burn.no_progress", 1),
    "burn_init_failure": Row("unknown", "none", "burn.init", words="device kernel image is invalid"),
    "burn_gpu_missing": Row("unknown", "none", "burn.gpu_count", words="7 GPUs were tested, 8 expected", also=("load.unseen",)),
    "burn_cut_output": Row("unknown", "none", "burn.incomplete"),
    "burn_hung": Row("unknown", "none", "tool.timeout", options=GRACE),
    "burn_hung_ignore_term": Row("unknown", "none", "tool.timeout", options=GRACE),
    "gpu_lost": Row("fail", "reseat", "gpu.lost", 3, also=("burn.gpu_count",)),
    "foreign_process": Row("fail", "look_at_code", "burn.busy", 2, words="pid 48213 python3"),
    "driver_not_loaded": Row("unknown", "reboot_node", "driver.not_loaded", also=("burn.busy",)),
    "no_kernel_log": Row("unknown", "none", "kernel_log.unread"),
}
DCGM: t.Mapping[str, Row] = {
    "": Row("pass", bases=EVERYWHERE),
    "dcgm_3": Row("pass"),
    "dcgm_profiling_lock": Row("pass"),
    "dcgm_memory": Row("fail", "replace", "dcgm.52", 2),
    "dcgm_memory+dcgm_3": Row("fail", "replace", "dcgm.52", 2),
    "dcgm_pcie": Row("fail", "reseat", "dcgm.46", 1, words="4X"),
    "link_x4": Row("fail", "reseat", "dcgm.46", 1),
    "dcgm_persistence": Row("warn", "none", "dcgm.29", 1),
    "dcgm_error_in_pass": Row("warn", "none", "dcgm.56", 3, words="passed and yet records an error"),
    "dcgm_not_run": Row("unknown", "none", "dcgm.not_run"),
    "dcgm_skips_all": Row("unknown", "none", "dcgm.skipped", also=("dcgm.nothing_ran",)),
    "dcgm_runtime_error": Row("unknown", "none", "dcgm.runtime_error", words="already running"),
    "dcgm_hung": Row("unknown", "none", "tool.timeout", also=("dcgm.unreadable",), options={"run_seconds": 0.7}),
    "mig_enabled": Row("unknown", "none", "dcgm.mig", words="MIG is on"),
    "gpu_lost": Row("fail", "reseat", "gpu.lost", 3, also=("dcgm.gpu_count",)),
    "foreign_process": Row("fail", "look_at_code", "dcgm.busy", 2),
}
NCCL: t.Mapping[str, Row] = {
    "": Row("pass", bases=EVERYWHERE),
    "nccl_tests_2_13": Row("pass", options=FLOOR),
    "nccl_half_bandwidth": Row("fail", "look_at_code", "nccl.slow", words="at least 440 GB/s", options=FLOOR),
    "nccl_wrong": Row("fail", "contact_vendor", "nccl.wrong"),
    "nccl_failure": Row("fail", "reset_gpu", "nccl.failure", words="unhandled cuda error"),
    "nccl_no_footer": Row("unknown", "none", "nccl.incomplete"),
    "nccl_p2p_hung": Row("warn", "look_at_code", "nccl.p2p_hang", options={"run_seconds": 2.5}, bases=("rtx5090x8", "l40sx4")),
    "nccl_p2p_slow": Row("pass", "none", "nccl.p2p_slow", words="28.1 GB/s without", bases=("rtx5090x8",)),
    "nccl_slow_node": Row("fail", "look_at_code", "nccl.slow", also=("nccl.slow_node",), options=NODES_FLOOR),
    "foreign_process": Row("fail", "look_at_code", "nccl.busy", 2),
}
STEPS: t.Mapping[str, t.Tuple[t.Any, t.Mapping[str, Row], t.Mapping[str, t.Any]]] = {
    "burn": (burn, BURN, {"seconds": 200}),
    "dcgm": (dcgm, DCGM, {"cool_down_seconds": 0}),
    "nccl": (nccl, NCCL, {}),
}
CASES = [
    pytest.param(step, base, fault, id="%s %s" % (step, "+".join(filter(None, (base, fault)))))
    for step, (_module, table, _options) in STEPS.items()
    for fault, row in table.items()
    for base in row.bases
]


def test_every_fault_of_a_step_has_its_row():
    rows = {fault for _module, table, _options in STEPS.values() for name in table for fault in name.split("+")}
    assert {fault for fault in scenario.faults() if fault.split("_")[0] in (*STEPS, "mig")} <= rows


@pytest.mark.parametrize(("step", "base", "fault"), CASES)
def test_fault(step, base, fault, tmp_path, monkeypatch):
    module, table, options = STEPS[step]
    row = table[fault]
    node = Node(tmp_path, "+".join(filter(None, (base, fault))))
    if node.nvml_problem:
        pytest.skip(node.nvml_problem)
    monkeypatch.setattr(burn, "_GRACE_SECONDS", 0.3 if row.options is GRACE else 20.0)
    monkeypatch.setattr(dcgm, "_TERM_SECONDS", 0.3)
    told = {"expected": {"count": node.count}, "sample_seconds": 0.1, **options, **row.options}

    def question():
        check, facts = module.run(module.Options(**told))
        return report([check], simulated=facts["simulated"], facts={step: facts})

    # A burn must last long enough to be seen in samples: on a machine that is very busy, longer.
    for speed in ("400", "40") if step == "burn" else ("1500",):
        node.environment["KENTINO_SIM_SPEED"] = speed
        result = node.ask(question)
        if "load.unseen" not in nodes.codes(result) or row.code == "load.unseen":
            break
    decision = policy.decide(result)

    assert (result["verdict"], result["action"]) == (row.verdict, row.action), result["findings"]
    assert decision.open == (row.verdict == "pass"), decision.reasons
    if not row.code:
        assert not nodes.codes(result, worse_than="pass")
        return
    first = result["findings"][0]
    assert row.code in nodes.codes(result)
    assert row.words in nodes.finding(result, row.code)["message"]
    assert set(row.also) <= set(nodes.codes(result))
    if row.gpu is not None:
        assert first["subject"].get("pci", node.pci(row.gpu)) == node.pci(row.gpu)
        assert nodes.finding(result, row.code)["subject"]["index"] == row.gpu % node.count
