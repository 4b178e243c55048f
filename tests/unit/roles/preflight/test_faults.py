# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role on many simulated nodes in one run: what the gate says of each fault. No fault passes, no healthy node is stopped.

The single steps are held against more faults, and against tools that hang, in C(tests/unit/plugins/module_utils/_check).
"""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.kentino.gpu.tests.unit.roles.preflight.plays import Play, scenario, table


class Row(t.NamedTuple):
    """What the gate comes to. C(gpu): number in the scenario of the GPU that is named; C(code): of the finding that stands first."""

    verdict: str
    action: str = "none"
    code: str = ""
    gpu: t.Optional[int] = None
    steps: t.Tuple[str, ...] = ("health", "burn")
    never: t.Tuple[str, ...] = ()  # steps that the fault keeps from being started
    vars: t.Mapping[str, t.Any] = {}


ALL = ("health", "dcgm", "burn", "nccl")
BURN, DCGM, NCCL = ("health", "burn"), ("health", "dcgm"), ("health", "nccl")
NOT_BURNT = ("burn",)

HEALTHY: t.Mapping[str, Row] = {name: Row("pass", steps=ALL) for name in ("h100x8", "l40sx4", "rtx5090x8")}
AT_REST: t.Mapping[str, Row] = {
    "h100x8+gpu_lost": Row("fail", "reseat", "gpu.lost", 3, never=NOT_BURNT),
    "rtx5090x8+missing_gpu": Row("fail", "reseat", "gpu.count", never=NOT_BURNT),
    "rtx5090x8+psu_lost": Row("fail", "check_power", "psu.lost", never=NOT_BURNT),
    "l40sx4+link_x4": Row("fail", "reseat", "gpu.pcie_width", 1, never=NOT_BURNT),
    "l40sx4+hot_gpu": Row("fail", "check_cooling", "gpu.temperature", 2, never=NOT_BURNT),
    "h100x8+remap_pending": Row("fail", "reset_gpu", "gpu.row_remap_pending", 2, never=NOT_BURNT),
    "h100x8+xid79_only": Row("fail", "reseat", "xid.79", 1, never=NOT_BURNT),
    "h100x8+fabric_not_ready": Row("fail", "reboot_node", "gpu.fabric", never=NOT_BURNT),
    "h100x8+driver_not_loaded": Row("unknown", "reboot_node", "driver.not_loaded", never=()),
    "h100x8+foreign_process": Row("fail", "look_at_code", "burn.busy", 2),
}
UNDER_LOAD: t.Mapping[str, Row] = {
    "h100x8+burn_errors": Row("fail", "replace", "burn.errors", 2, ("health", "burn", "nccl"), ("nccl",)),
    "l40sx4+burn_faulty": Row("fail", "replace", "burn.errors", 1),
    "h100x8+burn_died": Row("fail", "reset_gpu", "burn.died", 3),
    "h100x8+burn_xid48": Row("fail", "reset_gpu", "xid.48", 2),
    "rtx5090x8+burn_xid79": Row("fail", "reseat", "xid.79", 1),
    "h100x8+burn_xid94": Row("warn", "restart_job", "xid.94", 3),
    "h100x8+burn_ecc": Row("fail", "reset_gpu", "gpu.ecc_uncorrectable", 2),
    "h100x8+burn_link_down": Row("fail", "reseat", "gpu.pcie_width", 3),
    "l40sx4+burn_throttled": Row("fail", "check_cooling", "load.throttled", 1),
    "h100x8+burn_too_hot": Row("fail", "check_cooling", "gpu.temperature", 2),
    "h100x8+burn_slow_gpu": Row("warn", "check_power", "load.low_power", 2),
    "h100x8+burn_low_power": Row("warn", "check_power", "load.low_power"),
    "h100x8+burn_no_work": Row("unknown", "none", "burn.no_progress", 1),
    "l40sx4+burn_init_failure": Row("unknown", "none", "burn.init"),
    "h100x8+burn_gpu_missing": Row("unknown", "none", "burn.gpu_count"),
    "h100x8+burn_cut_output": Row("unknown", "none", "burn.incomplete"),
}
DIAGNOSTIC: t.Mapping[str, Row] = {
    "h100x8+dcgm_memory": Row("fail", "replace", "dcgm.52", 2, DCGM),
    "h100x8+dcgm_pcie": Row("fail", "reseat", "dcgm.46", 1, DCGM),
    "h100x8+dcgm_error_in_pass": Row("warn", "none", "dcgm.56", 3, DCGM),
    "h100x8+dcgm_not_run": Row("unknown", "none", "dcgm.not_run", None, DCGM),
    "l40sx4+dcgm_skips_all": Row("unknown", "none", "dcgm.skipped", None, DCGM),
    "h100x8+dcgm_hung": Row("unknown", "none", "tool.timeout", None, DCGM, vars={"preflight_limits": {"dcgm_seconds_level3": 3}}),
    "h100x8+mig_enabled": Row("unknown", "none", "dcgm.mig", None, DCGM),
}
BANDWIDTH: t.Mapping[str, Row] = {
    "h100x8+nccl_half_bandwidth": Row("fail", "look_at_code", "nccl.slow", None, NCCL),
    "h100x8+nccl_wrong": Row("fail", "contact_vendor", "nccl.wrong", None, NCCL),
    "h100x8+nccl_failure": Row("fail", "reset_gpu", "nccl.failure", None, NCCL),
    "l40sx4+nccl_no_footer": Row("unknown", "none", "nccl.incomplete", None, NCCL),
}
TABLE = {**HEALTHY, **AT_REST, **UNDER_LOAD, **DIAGNOSTIC, **BANDWIDTH}


def host_of(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> t.Dict[str, t.Any]:
    """What the play left, and which processes."""
    play = Play(tmp_path_factory.mktemp("preflight"))
    for name, row in TABLE.items():
        domains = {"power_domains": {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}} if "rtx5090x8" in name else {}
        play.add(host_of(name), name, expected=domains, preflight_steps=list(row.steps), **row.vars)
    return {**play.run(), "left": play.left()}


@pytest.mark.parametrize("name", TABLE)
def test_the_gate_says(ran: t.Dict[str, t.Any], name: str) -> None:
    row, gate, results = TABLE[name], ran["gates"][host_of(name)], ran["results"][host_of(name)]
    seen = (gate["verdict"], gate["action"], [found["code"] for found in gate["findings"]], gate["msg"])
    assert (gate["verdict"], gate["action"]) == (row.verdict, row.action), seen
    assert gate["open"] == (row.verdict == "pass"), seen
    if row.verdict == "pass":
        assert [found["code"] for found in gate["findings"] if found["verdict"] != "pass"] == [], seen
        assert {step: result["verdict"] for step, result in results.items()} == dict.fromkeys(row.steps, "pass")
        return
    named = [found for found in gate["findings"] if found["code"] == row.code]
    assert named, seen
    if row.gpu is not None:
        for found in (gate["findings"][0], named[0]):
            assert found["subject"].get("pci") == scenario.load(name).gpus[row.gpu]["bus_id"][:-2].lower(), seen
    for step in row.never:
        assert results[step]["verdict"] == "skip", results[step]


def test_the_table_tells_of_every_host(ran: t.Dict[str, t.Any]) -> None:
    shown = [line.split()[:3] for line in table(ran["printed"])]
    for name, row in TABLE.items():
        assert [host_of(name), "gate", "open" if row.verdict == "pass" else "SHUT"] in shown


def test_no_process_is_left(ran: t.Dict[str, t.Any]) -> None:
    assert ran["left"] == []
