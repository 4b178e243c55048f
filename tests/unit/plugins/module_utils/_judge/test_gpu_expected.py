# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge.gpu import KEYS, check_expected


@pytest.mark.parametrize(
    ("given", "checked"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"count": None, "idle": None}, {}, id="keys left empty in the inventory"),
        pytest.param({"count": 8, "pcie_width": 16, "ecc": False}, {"count": 8, "pcie_width": 16, "ecc": False}, id="plain values"),
        pytest.param({"device_id": "10DE:2330"}, {"device_id": "10de:2330"}, id="device id in upper case"),
        pytest.param({"device_id": "2330"}, {"device_id": "10de:2330"}, id="device id without its vendor"),
        pytest.param({"device_id": "0x10de:0x2330"}, {"device_id": "10de:2330"}, id="device id with prefixes"),
        pytest.param({"driver_version": 570}, {"driver_version": "570"}, id="a branch without quotes"),
        pytest.param({"serials": [1650923004410, "0324"]}, {"serials": ("1650923004410", "0324")}, id="serials without quotes"),
        pytest.param(
            {"power_domains": {"psu_a": [0, "1"], "psu_b": ["00000000:C1:00.0", "41:00"]}},
            {"power_domains": {"psu_a": (0, 1), "psu_b": ("0000:c1:00", "0000:41:00")}},
            id="power domains by number and by address in the tools' forms",
        ),
        pytest.param({"power_limit_watts": 450}, {"power_limit_watts": 450}, id="watts"),
    ],
)
def test_expectations_in_one_form(given: t.Dict[str, t.Any], checked: t.Dict[str, t.Any]) -> None:
    assert check_expected(given) == checked


def test_what_was_checked_can_be_checked_again() -> None:
    once = check_expected({"device_id": "2335", "power_domains": {"a": ["c1:00", 2]}, "serials": [12], "cuda_version": 12})
    assert check_expected(once) == once


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        pytest.param({"pci_width": 16}, "'pci_width' is no key of it; did you mean 'pcie_width'?", id="misspelt"),
        pytest.param({"zzz": 1}, "'zzz' is no key of it; use one of: count, device_id", id="unlike any"),
        pytest.param({"pcie_width": "x16"}, "pcie_width is 'x16'; expected a whole number: write it without quotes", id="width as text"),
        pytest.param({"count": True}, "count is True; expected a whole number", id="count as boolean"),
        pytest.param({"count": -1}, "count is -1; expected a whole number", id="count below zero"),
        pytest.param({"ecc": "yes"}, "ecc is 'yes'; expected true or false: write it without quotes", id="flag as text"),
        pytest.param({"device_id": 2330}, "device_id is 2330; expected PCI vendor and device in hexadecimal", id="device id as number"),
        pytest.param({"device_id": "H100"}, "device_id is 'H100'; expected PCI vendor", id="a name as device id"),
        pytest.param({"driver_version": 570.1}, "driver_version is 570.1; expected a version", id="a version YAML made a number of"),
        pytest.param({"vbios": ""}, "vbios is ''; expected text", id="empty text"),
        pytest.param({"uuids": "GPU-1"}, "uuids is 'GPU-1'; expected a list of texts", id="one text in place of a list"),
        pytest.param({"uuids": []}, "uuids is []; expected a list of texts", id="an empty list"),
        pytest.param({"serials": [None]}, "serials is [None]; expected a list of texts", id="a list with nothing in it"),
        pytest.param({"power_limit_watts": 0}, "power_limit_watts is 0; expected a number above 0", id="no watts"),
        pytest.param({"power_domains": [0, 1]}, "expected the GPUs behind each power supply", id="domains without names"),
        pytest.param({"power_domains": {"a": ["slot 3"]}}, "expected PCI addresses or GPU numbers", id="a slot in a domain"),
        pytest.param({"power_domains": {"a": [-1]}}, "expected PCI addresses or GPU numbers", id="a number below zero in a domain"),
    ],
)
def test_a_wrong_expectation_says_what_was_given_expected_and_to_do(given: t.Dict[str, t.Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        check_expected(given)
    assert str(error.value).startswith("gpu_expected: ")


def test_every_key_has_a_check() -> None:
    for key in KEYS:
        with pytest.raises(ValueError, match=key):
            check_expected({key: object()})
