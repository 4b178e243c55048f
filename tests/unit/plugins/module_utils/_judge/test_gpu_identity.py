# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import Gpu, GpuReading
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import (
    H100,
    RTX_5090,
    change,
    node,
    of_one,
    several,
    told,
)

MISMATCH = ("gpu.firmware_mismatch", "warn", "none")


@pytest.mark.parametrize(
    ("expected", "findings"),
    [
        pytest.param({"device_id": "10de:2335"}, [("gpu.device_id", "fail", "none")], id="another model"),
        pytest.param({"name": "NVIDIA H200"}, [("gpu.name", "warn", "none")], id="another name"),
        pytest.param({"name": "nvidia h100 80gb  hbm3"}, [], id="the name in other letters"),
        pytest.param({"vbios": "96.00.74.00.02"}, [("gpu.vbios", "warn", "contact_vendor")], id="another VBIOS"),
        pytest.param({"memory_total_mib": 143771}, [("gpu.memory_total", "fail", "contact_vendor")], id="less memory"),
        pytest.param({"memory_total_mib": 40960}, [("gpu.memory_total", "warn", "none")], id="more memory"),
        pytest.param({"memory_total_mib": 81920}, [], id="memory as sold, half a percent more"),
        pytest.param({"driver_version": "570"}, [], id="the driver's branch"),
        pytest.param({"driver_version": "570.133.20"}, [], id="the very driver"),
        pytest.param({"driver_version": "570.13"}, [("driver.version", "warn", "none")], id="570.13 is not 570.133"),
        pytest.param({"driver_version": "580"}, [("driver.version", "warn", "none")], id="another driver"),
        pytest.param({"cuda_version": "13.0"}, [("cuda.version", "warn", "none")], id="another CUDA"),
        pytest.param({"uuids": [H100.uuid]}, [], id="listed by UUID"),
        pytest.param({"uuids": [str(H100.uuid).upper()]}, [], id="listed by UUID in upper case"),
        pytest.param({"serials": ["1"], "uuids": [H100.uuid]}, [], id="listed by one of two names"),
        pytest.param({"serials": ["1"]}, [("gpu.unexpected", "warn", "none")], id="not listed"),
    ],
)
def test_identity(expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(H100, expected) == findings


@pytest.mark.parametrize(("key", "code"), [("driver_version", "driver.version"), ("cuda_version", "cuda.version")])
def test_a_version_that_is_not_told_is_undetermined(key: str, code: str) -> None:
    assert told(judge.judge(node(H100, driver_version=None, cuda_version=None), {key: "570"}, {})) == [(code, "unknown", "none")]


def test_versions_of_a_fragment_or_of_a_failed_reading_are_not_asked_for() -> None:
    fragment = GpuReading("nvidia-smi text", (H100,))
    assert told(judge.judge(fragment, {"driver_version": "570"}, {})) == [("gpu.incomplete", "unknown", "none")]
    assert told(judge.judge(GpuReading("nvml", error_kind="timeout"), {"driver_version": "570"}, {})) == [
        ("tool.timeout", "unknown", "reboot_node")
    ]


def test_the_odd_one_out_is_named_with_what_the_others_have() -> None:
    cards = list(several(H100, 8))
    cards[5] = change(cards[5], vbios="96.00.30.00.01", board_part="692-2G520-0200-100")
    (finding,) = judge.judge(node(*cards), {}, {})
    assert (finding.code, finding.subject.index) == ("gpu.firmware_mismatch", 5)
    assert finding.message == (
        "VBIOS 96.00.30.00.01, 7 siblings have 96.00.74.00.01; board part 692-2G520-0200-100, 7 siblings have 692-2G520-0200-000"
    )


def test_two_that_differ_are_both_named_because_none_is_the_odd_one() -> None:
    one, other = several(RTX_5090, 2)
    (finding,) = judge.judge(node(one, change(other, vbios="98.02.2e.40.9b")), {}, {})
    assert (finding.code, finding.subject.kind, len(finding.evidence)) == ("gpu.firmware_mismatch", "node", 2)


@pytest.mark.parametrize(
    ("facts", "findings"),
    [
        pytest.param({"vbios": None}, [], id="one does not tell"),
        pytest.param({"device_id": "10de:2684", "name": "NVIDIA GeForce RTX 4090", "vbios": "95.02"}, [], id="another model"),
        pytest.param({"memory_total_mib": 32600}, [], id="some MiB less"),
        pytest.param({"memory_total_mib": 24564}, [MISMATCH], id="a quarter less"),
        pytest.param({"power_limit_default_watts": None, "power_limit_watts": 500.0}, [MISMATCH], id="no default: the limit itself"),
    ],
)
def test_siblings(facts: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    first, *rest = several(RTX_5090, 4)
    assert told(judge.judge(node(change(first, **facts), *rest), {}, {})) == findings


def test_gpus_without_model_are_no_siblings() -> None:
    cards = [Gpu(uuid="GPU-%d" % number, pci="0000:0%d:00" % number, vbios=str(number), temperature_c=40) for number in (1, 2)]
    assert told(judge.judge(GpuReading("nvidia-smi csv", tuple(cards), complete=True), {}, {})) == []


def test_gpus_are_siblings_by_name_where_no_device_id_is_told() -> None:
    cards = [change(card, device_id=None, vbios="1" if card.index else "2") for card in several(RTX_5090, 3)]
    assert told(judge.judge(node(*cards), {}, {})) == [MISMATCH]


@pytest.mark.parametrize("attribute", ["uuid", "serial"])
def test_a_name_that_occurs_twice_is_reported_once(attribute: str) -> None:
    first, second, third = several(H100, 3)
    cards = (first, change(second, **{attribute: getattr(first, attribute)}), third)
    (finding,) = judge.judge(node(*cards), {}, {})
    assert (finding.code, finding.verdict, len(finding.evidence)) == ("gpu.duplicate", "warn", 2)


@pytest.mark.parametrize(
    ("facts", "why"),
    [({"device_id": "10de:25b6"}, "an A16 holds four GPUs under one serial"), ({"device_id": None}, "consumer boards say serial 0")],
)
def test_serials_that_may_occur_twice(facts: t.Dict[str, t.Any], why: str) -> None:
    serial = "1321021041234" if facts["device_id"] else "0"
    cards = [change(card, serial=serial, pcie_width=16, **facts) for card in several(RTX_5090, 4)]
    assert "gpu.duplicate" not in {one.code for one in judge.judge(node(*cards), {}, {})}, why
