# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import platforms

ALL = list(platforms.PLATFORMS.values())


@pytest.mark.parametrize("item", ALL, ids=[item.device_id for item in ALL])
def test_every_platform_is_well_formed_and_sourced(item: platforms.Platform) -> None:
    assert re.fullmatch(r"10de:[0-9a-f]{4}", item.device_id)
    assert item.form in platforms.FORMS
    assert item.grade in platforms.GRADES
    assert item.ecc is None or item.ecc in platforms.ECC
    assert item.source
    assert item.trust == "vendor"
    assert item.pcie_width in (None, 16)
    assert item.pcie_gen in (None, 3, 4, 5)


def test_no_id_occurs_twice() -> None:
    assert len(platforms._ALL) == len(platforms.PLATFORMS)


@pytest.mark.parametrize(
    ("device_id", "facts"),
    [
        pytest.param("10de:20b2", {"form": "sxm", "nvlinks": 12, "pcie_gen": 4, "fabric": None}, id="A100 SXM"),
        pytest.param("10de:20b5", {"form": "pcie", "nvlinks": None, "row_remap": True}, id="A100 PCIe"),
        pytest.param("10de:2330", {"form": "sxm", "nvlinks": 18, "fabric": True, "pcie_gen": 5}, id="H100 SXM"),
        pytest.param("10de:2331", {"form": "pcie", "nvlinks": None, "fabric": False, "ecc": "standard"}, id="H100 PCIe"),
        pytest.param("10de:2335", {"form": "sxm", "nvlinks": 18, "fabric": True}, id="H200"),
        pytest.param("10de:2901", {"form": "sxm", "nvlinks": 18, "fabric": True, "pcie_gen": None}, id="B200"),
        pytest.param("10de:26b9", {"form": "pcie", "ecc": "standard", "pcie_gen": 4, "nvlinks": 0}, id="L40S"),
        pytest.param("10de:2684", {"grade": "consumer", "pcie_gen": 4}, id="RTX 4090"),
        pytest.param("10de:2b85", {"grade": "consumer", "ecc": "none", "pcie_gen": 5}, id="RTX 5090"),
        pytest.param("10de:2bb1", {"grade": "workstation", "ecc": "optional", "pcie_gen": 5}, id="RTX PRO 6000 Blackwell"),
        pytest.param("10de:1db1", {"form": "sxm", "row_remap": False, "pcie_gen": 3}, id="V100 SXM2"),
        pytest.param("10de:1eb8", {"grade": "datacentre", "row_remap": False, "pcie_gen": 3}, id="T4"),
    ],
)
def test_known_platforms(device_id: str, facts: t.Dict[str, t.Any]) -> None:
    item = platforms.platform(device_id)
    assert item is not None
    assert {key: getattr(item, key) for key in facts} == facts


@pytest.mark.parametrize("device_id", [None, "", "10de:ffff", "8086:2330", "NVIDIA H100 80GB HBM3", "2330"])
def test_an_unknown_gpu_has_no_platform(device_id: t.Optional[str]) -> None:
    assert platforms.platform(device_id) is None


def test_case_does_not_matter() -> None:
    assert platforms.platform("10DE:26B9") is platforms.platform("10de:26b9")


def test_only_switched_boards_need_a_fabric() -> None:
    assert all(item.form == "sxm" for item in ALL if item.fabric)


def test_consumer_cards_are_never_held_to_ecc() -> None:
    assert not [item for item in ALL if item.grade == "consumer" and item.ecc == "standard"]
