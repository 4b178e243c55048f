# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import driver, platforms


@pytest.mark.parametrize(
    ("device_id", "capability", "needs", "nvlink5"),
    [
        ("10de:2330", "9.0", None, False),  # H100 SXM5
        ("10de:2342", "9.0", "open", False),  # GH200
        ("10de:2901", "10.0", "open", True),  # B200
        ("10de:3182", "10.3", "open", True),  # B300
        ("10de:2b85", "12.0", "open", False),  # RTX 5090
        ("10de:26b9", "8.9", None, False),  # L40S
        ("10de:2684", "8.9", None, False),  # RTX 4090
        ("10de:20b2", "8.0", None, False),  # A100
        ("10de:2235", "8.6", None, False),  # A40
        ("10de:1eb8", "7.5", None, False),  # T4
        ("10de:1DB5", "7.0", "proprietary", False),  # V100, as some tools print it
    ],
)
def test_chip_by_device_id(device_id, capability, needs, nvlink5):
    chip = driver.chip(device_id)
    assert (chip.compute_capability, chip.needs, chip.nvlink5) == (capability, needs, nvlink5)


@pytest.mark.parametrize("device_id", ["10de:22a3", "10de:ffff", "8086:2330", "10de:", "", "10de:xyz"])
def test_what_is_no_known_chip(device_id):
    assert driver.chip(device_id) is None


def test_every_platform_is_a_known_chip():
    """Where a GPU is known by its model its compute capability has to be known too."""
    ids = [entry.device_id for entry in platforms._ALL]
    assert not [device_id for device_id in ids if driver.chip(device_id) is None]


def test_ranges_do_not_overlap():
    ranges = sorted((chip.first, chip.last) for chip in driver._CHIPS)
    assert all(first <= last for first, last in ranges)
    assert all(before[1] < after[0] for before, after in zip(ranges, ranges[1:]))


@pytest.mark.parametrize(
    ("device_ids", "flavour"),
    [
        (["10de:2330"], "open"),
        (["10de:1db5"], "proprietary"),
        (["10de:1db5", "10de:20b2"], "proprietary"),  # old and new in one node
        (["10de:2b85", "10de:26b9"], "open"),
        (["10de:ffff"], "open"),  # newer than the table
        (["10de:1db5", "10de:2901"], None),
    ],
)
def test_flavour_that_drives_all_of_them(device_ids, flavour):
    assert driver.flavour(device_ids) == flavour
