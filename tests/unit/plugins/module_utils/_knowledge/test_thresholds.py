# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t
from datetime import date

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import thresholds

IDS = [threshold.key for threshold in thresholds.THRESHOLDS]


@pytest.mark.parametrize("threshold", thresholds.THRESHOLDS, ids=IDS)
def test_every_threshold_says_where_it_comes_from(threshold: thresholds.Threshold) -> None:
    assert re.fullmatch(r"[a-z0-9_]+", threshold.key)
    assert threshold.unit
    assert len(threshold.source) > 10
    assert len(threshold.conditions) > 10
    assert date.fromisoformat(threshold.date) > date(2026, 1, 1)
    assert threshold.trust in thresholds.TRUST
    assert isinstance(threshold.value, (int, float))


def test_keys_are_unique() -> None:
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature_c", 85),
        ("row_remap_uncorrectable", 512),
        ("sram_uncorrectable_aggregate", 4),
        ("retired_pages_total", 63),
        ("retired_pages_double_bit", 15),
        ("idle_temperature_c", 70),
        ("idle_utilisation_pct", 10),
        ("nvlink_crc_per_second", 100),
    ],
)
def test_figures_that_others_publish_are_kept(key: str, value: int) -> None:
    assert thresholds.limits()[key] == value


def test_an_override_changes_its_key_only() -> None:
    plain = thresholds.limits({})
    assert thresholds.limits({"temperature_c": 82.5}) == {**plain, "temperature_c": 82.5}
    assert thresholds.limits(None) == plain


@pytest.mark.parametrize("value", [-5, 0])
def test_a_margin_may_be_negative(value: int) -> None:
    assert thresholds.limits({"temperature_margin_c": value})["temperature_margin_c"] == value


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        pytest.param({"temprature_c": 80}, "'temprature_c' is no threshold of kentino.gpu; did you mean 'temperature_c'", id="misspelt"),
        pytest.param({"x": 80}, "'x' is no threshold of kentino.gpu; use one of: burn_doubles_seconds, ", id="unlike any"),
        pytest.param({3: 80}, "'3' is no threshold", id="a number as key"),
        pytest.param({"temperature_c": "83"}, "temperature_c is '83'; expected a number of degrees Celsius. Write it without", id="text"),
        pytest.param({"temperature_c": True}, "temperature_c is True; expected a number", id="boolean"),
        pytest.param({"temperature_c": None}, "temperature_c is None; expected a number", id="empty in the inventory"),
        pytest.param({"temperature_c": float("nan")}, "temperature_c is nan; expected a number", id="not a number"),
        pytest.param({"memory_held_mib": -1}, "memory_held_mib is -1; expected 0 or more", id="negative"),
    ],
)
def test_a_wrong_override_says_what_was_given_expected_and_to_do(overrides: t.Dict[t.Any, t.Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        thresholds.limits(overrides)
