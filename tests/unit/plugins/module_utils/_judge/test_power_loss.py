# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import DriverFault
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.kernel_records import (
    GPU_A,
    GPU_B,
    GPU_C,
    GPU_D,
    findings,
    incidents,
    origin,
    policy,
    recovery,
    short,
    xid,
)

LEFT = {"left": [GPU_A, GPU_B]}
BOTH = {"left": [GPU_A, GPU_B], "right": [GPU_C, GPU_D]}


def _lost(*seconds_and_gpus: t.Tuple[t.Optional[float], str]) -> t.List[t.Any]:
    return [xid(79, seconds, pci) for seconds, pci in seconds_and_gpus]


@pytest.mark.parametrize(
    ("losses", "domains", "supplies"),
    [
        pytest.param([(0, GPU_A), (0.01, GPU_B)], LEFT, [("left", 2)], id="all-of-one-domain"),
        pytest.param([(0, GPU_A), (0.01, GPU_B), (0.02, GPU_C), (0.03, GPU_D)], BOTH, [("left", 2), ("right", 2)], id="two-domains"),
        pytest.param([(0, GPU_A), (0.01, GPU_B), (0.02, GPU_C)], BOTH, [("left", 2)], id="one-domain-and-one-more"),
        pytest.param([(0, GPU_A), (0.01, GPU_C), (0.02, "0000:f0:00")], BOTH, [], id="no-domain-is-complete"),
        pytest.param([(0, GPU_A)], {"left": [GPU_A]}, [], id="a-domain-of-one-tells-nothing"),
        pytest.param([(0, GPU_A), (6, GPU_B)], LEFT, [], id="too-far-apart"),
        pytest.param([(0, GPU_A), (0.1, GPU_B)], {}, [], id="two-without-a-map"),
        pytest.param([(0, GPU_A), (0.1, GPU_B), (4.9, GPU_C)], {}, [("", 3)], id="three-without-a-map"),
        pytest.param([(0, GPU_A), (0.1, GPU_B), (5.1, GPU_C)], {}, [], id="third-too-late"),
        pytest.param([(None, GPU_A), (None, GPU_B), (None, GPU_C)], {}, [("", 3)], id="log-without-times"),
        pytest.param([(0, GPU_A), (0, GPU_A), (0, GPU_A)], {}, [], id="one-GPU-three-times"),
    ],
)
def test_gpus_lost_at_once(losses: t.Any, domains: t.Any, supplies: t.Sequence[t.Tuple[str, int]]) -> None:
    found = findings(*_lost(*losses), under=policy(power_domains=domains))

    psu = [one for one in found if one.code == "psu.lost"]
    assert [(one.subject.name, one.count) for one in psu] == supplies
    for one in psu:
        assert (one.severity, one.action, one.subject.kind) == ("critical", "check_power", "psu")


def test_members_stay_and_say_what_they_are_part_of() -> None:
    found = findings(*_lost((0, GPU_A), (0.2, GPU_B), (0.3, GPU_C)), under=policy(power_domains=LEFT))

    members = {one.subject.pci: one for one in found if one.code == "xid.79"}
    assert members[GPU_A].action == members[GPU_B].action == "check_power"
    assert "part of psu.lost: 2 GPUs were lost together, all on supply 'left'" in members[GPU_A].message
    assert (members[GPU_C].action, "psu.lost" in members[GPU_C].message) == ("reseat", False)


def test_what_to_do_first_is_the_power() -> None:
    found = findings(*_lost((0, GPU_A), (0.2, GPU_B)), under=policy(power_domains=LEFT))

    assert {one.action for one in found} == {"check_power"}
    assert {one.action for one in incidents(*_lost((0, GPU_A), (0.2, GPU_B)), under=policy(power_domains=LEFT))} == {"check_power"}


@pytest.mark.parametrize("spelling", [["00000000:1B:00.0", "0000:43:00.0"], ["PCI:0000:1b:00", "43:00"]])
def test_addresses_of_the_inventory_may_be_spelt_as_tools_do(spelling: t.Sequence[str]) -> None:
    found = findings(*_lost((0, GPU_A), (0.2, GPU_B)), under=policy(power_domains={"a": spelling}))

    assert [one.subject.name for one in found if one.code == "psu.lost"] == ["a"]


def test_domains_by_index_need_the_addresses_of_this_node() -> None:
    domains = {"a": ["0", 1], "b": ["2", 3]}
    addresses = [GPU_A, GPU_B, GPU_C, GPU_D]
    losses = _lost((0, GPU_C), (0.2, GPU_D))

    told = findings(*losses, under=policy(power_domains=domains, gpu_pci=addresses))
    untold = findings(*losses, under=policy(power_domains=domains))

    assert [one.subject.name for one in told if one.code == "psu.lost"] == ["b"]
    assert [one for one in untold if one.code == "psu.lost"] == []


def test_losses_in_plain_words_count() -> None:
    plain = [DriverFault("gpu_lost", pci, equivalent_xid=79, origin=origin(0)) for pci in (GPU_A, GPU_B, GPU_C)]

    assert short(findings(*plain))[0] == ("psu.lost", "critical", "check_power")


def test_a_supply_lost_in_the_boot_before_is_history() -> None:
    found = findings(*(xid(79, 0, pci, boot="previous") for pci in (GPU_A, GPU_B, GPU_C)))

    assert {(one.code, one.severity) for one in found} == {("psu.lost", "info"), ("xid.79", "info")}


def test_recovered_gpus_are_no_lost_supply() -> None:
    events = [event for pci in (GPU_A, GPU_B, GPU_C) for event in (xid(79, 0, pci), recovery(0, 60, pci))]

    assert {one.code for one in findings(*events)} == {"xid.79"}
