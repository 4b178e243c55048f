# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import floors, thresholds
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge.platforms import platform

ALL = list(floors.FLOORS.values())


def name_of(floor):
    return "%s x%d" % (floor.device_id, floor.gpus)


@pytest.mark.parametrize("floor", ALL, ids=name_of)
def test_a_floor_names_its_size_and_stays_below_the_limit_of_its_link(floor):
    assert floor.unit == "GB/s"
    assert floor.message_bytes >= floors.MIB
    assert floor.gpus > 1
    assert 0 < floor.value <= floor.limit_gbps()
    assert floor.measured is None or floor.value < floor.measured <= floor.limit_gbps()


@pytest.mark.parametrize("floor", ALL, ids=name_of)
def test_a_floor_says_where_it_comes_from(floor):
    assert floor.source
    assert floor.conditions
    assert floor.trust in thresholds.TRUST
    assert datetime.date.fromisoformat(floor.date)


@pytest.mark.parametrize("floor", ALL, ids=name_of)
def test_a_floor_is_of_a_known_card_in_its_form(floor):
    card = platform(floor.device_id)
    assert card.form == floor.form
    assert (floor.pcie_gen is None) == (floor.pcie_width is None) == (floor.form != "pcie")
    if floor.form == "pcie":
        assert (card.pcie_gen, card.pcie_width) == (floor.pcie_gen, floor.pcie_width)


def test_no_card_has_two_floors_for_one_count():
    assert len(ALL) == len(floors._ALL)


def test_a_card_without_a_floor_is_known_and_has_none():
    assert all(platform(device) for device in floors.WITHOUT_FLOOR)
    assert not set(floors.WITHOUT_FLOOR) & {device for device, _gpus in floors.FLOORS}


@pytest.mark.parametrize(
    ("ids", "link", "value"),
    [
        (["10de:2330"] * 8, (), 460),
        (["10DE:2330 "] * 8, (), 460),
        (["10de:2330"] * 4, (), None),
        (["10de:2330"] * 7 + ["10de:2335"], (), None),
        (["10de:2330"] * 7 + [None], (), None),
        (["10de:2b85"] * 8, (5, 16), None),
        (["10de:2bb5"] * 8, (5, 16), 20),
        (["10de:2bb5"] * 8, (4, 16), None),
        (["10de:2bb5"] * 8, (5, 8), None),
        (["10de:2bb5"] * 8, (None, None), None),
        ([], (), None),
    ],
    ids=[
        "eight H100 SXM", "upper case", "four of eight", "mixed", "one without an id", "no figure published", "PCIe", "an older slot",
        "half the lanes", "link not known", "no GPU",
    ],
)  # fmt: skip
def test_which_floor_holds(ids, link, value):
    found = floors.floor(ids, *link)
    assert (found.value if found else None) == value


def test_the_option_is_what_the_nccl_test_takes():
    option = floors.floor(["10de:2335"] * 8).option()
    assert set(option) == {"value_gbps", "message_bytes", "gpus", "source", "date"}
    assert (option["value_gbps"], option["message_bytes"], option["gpus"]) == (431, 16 << 30, 8)
