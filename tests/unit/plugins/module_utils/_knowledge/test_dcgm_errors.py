# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import dcgm_errors
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import ACTIONS, SEVERITIES

# Of DCGM 4.6.0: the numbers that a decision hangs on, written down a second time.
_NAMES = {
    6: "PENDING_PAGE_RETIREMENTS",
    29: "PERSISTENCE_MODE",
    46: "PCIE_WIDTH",
    47: "ABORTED",
    51: "CUDA_API",
    52: "FAULTY_MEMORY",
    56: "MEMORY_ALLOC",
    80: "ROW_REMAP_FAILURE",
    81: "UNCONTAINED_ERROR",
    84: "UNCORRECTABLE_ROW_REMAP",
    101: "XID_ERROR",
    109: "SXID_ERROR",
    120: "FALLEN_OFF_BUS",
    129: "NCCL_ERROR",
    132: "UNCORRECTABLE_ROW_REMAP_LIMIT",
}


def test_every_number_of_dcgm_has_one_entry():
    assert list(dcgm_errors.ERRORS) == list(range(133))
    assert len({entry.name for entry in dcgm_errors.ERRORS.values()}) == 133


@pytest.mark.parametrize(("number", "name"), sorted(_NAMES.items()))
def test_names_stand_beside_their_numbers(number, name):
    assert dcgm_errors.ERRORS[number].name == name


@pytest.mark.parametrize("entry", dcgm_errors.ERRORS.values(), ids=lambda entry: entry.name)
def test_entries(entry):
    assert entry.severity in SEVERITIES
    assert entry.action in ACTIONS
    assert entry.meaning
    assert not entry.meaning.endswith(".")
    if entry.nvidia_severity in dcgm_errors.GRAVE:
        assert entry.severity == "critical", "milder than NVIDIA's own reading"
        assert entry.action != "none"
        assert not entry.setting
    if entry.setting:
        assert entry.advice, "a setting without a word on what to set"
        assert entry.severity == "warning"
    if entry.severity == "critical" and entry.action == "none":
        assert entry.advice, "nothing to do about something critical"
    assert not entry.explains_skip or entry.severity != "critical"


def test_a_setting_is_known_by_its_number_alone():
    persistence, aborted = dcgm_errors.ERRORS[29], dcgm_errors.ERRORS[47]
    assert (persistence.nvidia_severity, persistence.category) == (aborted.nvidia_severity, aborted.category)
    assert persistence.setting
    assert not aborted.setting
    assert not dcgm_errors.ERRORS[46].setting


@pytest.mark.parametrize("number", [None, 133, 999, -1])
def test_what_is_not_listed_is_critical_and_says_so(number):
    entry = dcgm_errors.lookup(number)
    assert (entry.known, entry.severity, entry.setting) == (False, "critical", False)


@pytest.mark.parametrize("key", [55, "55"])
def test_the_inventory_overrides_severity_and_action(key):
    entry = dcgm_errors.lookup(55, {key: {"severity": "critical", "action": "contact_vendor"}})
    assert (entry.severity, entry.action, entry.name) == ("critical", "contact_vendor", "ECC_DISABLED")
    assert dcgm_errors.lookup(56, {key: {"severity": "critical"}}).severity == "warning"


@pytest.mark.parametrize("wanted", [{"severity": "fatal"}, {"action": "pray"}, {"colour": "red"}])
def test_a_wrong_override_is_refused(wanted):
    with pytest.raises(ValueError, match="DCGM error 55"):
        dcgm_errors.lookup(55, {55: wanted})


@pytest.mark.parametrize(("number", "word"), [(0, "none"), (2, "isolate"), (6, "reset"), (7, None), (-1, None), (None, None)])
def test_severities_of_documents(number, word):
    assert dcgm_errors.nvidia_severity(number) == word
