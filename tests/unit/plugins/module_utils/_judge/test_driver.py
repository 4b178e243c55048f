# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import driver
from ansible_collections.kentino.gpu.plugins.module_utils._parse.driver_records import DriverReading, Module

H100, B200 = "10de:2330", "10de:2901"
BUILT = Module("580.95.05", "open", False)
GOOD = DriverReading(
    loaded="580.95.05",
    loaded_flavour="open",
    library="580.95.05",
    running="6.1",
    next_boot="6.1",
    headers={"6.1": True},
    modules={"6.1": BUILT},
    secure_boot=False,
)
BARE = dataclasses.replace(GOOD, loaded=None, loaded_flavour=None, library=None, modules={"6.1": None})
NEXT = {"next_boot": "6.5", "headers": {"6.1": True, "6.5": False}}


@pytest.mark.parametrize(
    ("changes", "device", "expected"),
    [
        pytest.param({}, H100, [], id="all agree"),
        pytest.param(
            {"library": "580.105.08"},
            H100,
            [("driver.version_mismatch", "fail", "reboot_node", "the module 580.95.05 is loaded, the library is 580.105.08")],
            id="the library moved on",
        ),
        pytest.param(
            {"modules": {"6.1": Module("580.105.08", "open", False)}},
            H100,
            [("driver.reboot_pending", "warn", "reboot_node", "580.105.08 is built")],
            id="the module moved on",
        ),
        pytest.param({"library": None}, H100, [("driver.no_library", "fail", "none", "580.95.05 is loaded")], id="no library"),
        pytest.param(
            {**NEXT, "modules": {"6.1": BUILT, "6.5": None}},
            H100,
            [("driver.not_built_for_next_kernel", "warn", "none", "6.5, which boots next")],
            id="not built for the kernel that boots next",
        ),
        pytest.param(
            {**NEXT, "modules": {"6.1": BUILT, "6.5": Module("570.1.1", "open", False)}},
            H100,
            [("driver.not_built_for_next_kernel", "warn", "none", "the module is 570.1.1, and the library is 580.95.05")],
            id="another version is built for the kernel that boots next",
        ),
        pytest.param(
            {"nouveau": True, "loaded": None}, H100, [("driver.nouveau", "fail", "reboot_node", "nouveau is loaded")], id="nouveau is there"
        ),
        pytest.param({"loaded": None}, H100, [("driver.not_loaded", "fail", "none", "built for the running kernel 6.1")], id="not loaded"),
        pytest.param(
            {"loaded": None, "modules": {"6.1": None}, "headers": {"6.1": False}},
            H100,
            [("driver.not_built", "fail", "none", "no module is built for the running kernel 6.1")],
            id="not built",
        ),
        pytest.param(
            {"loaded": None, "secure_boot": True, "mok_enrolled": False},
            H100,
            [("driver.secure_boot_unsigned", "fail", "none", "the module is not signed")],
            id="Secure Boot refuses what is not signed",
        ),
        pytest.param(
            {
                "loaded": None,
                "secure_boot": True,
                "mok_enrolled": False,
                "certificate": "/k",
                "modules": {"6.1": Module("580.95.05", "open", True)},
            },
            H100,
            [("driver.secure_boot_unsigned", "fail", "none", "signed with a key that is not enrolled")],
            id="Secure Boot refuses an unknown key",
        ),
        pytest.param({"secure_boot": True, "mok_enrolled": False}, H100, [], id="what is loaded was accepted"),
        pytest.param(
            {"secure_boot": True, "mok_enrolled": False, "modules": {"6.1": Module("580.105.08", "open", False)}},
            H100,
            [
                ("driver.reboot_pending", "warn", "reboot_node", "580.105.08 is built"),
                ("driver.secure_boot_unsigned", "warn", "none", "which boots next, would be refused"),
            ],
            id="what was built since is not what was accepted",
        ),
        pytest.param(
            {"loaded_flavour": "proprietary"},
            B200,
            [("driver.wrong_flavour", "fail", "none", "needs the open kernel modules")],
            id="flavour",
        ),
        pytest.param({"loaded_flavour": "proprietary"}, H100, [], id="either flavour drives it"),
        pytest.param(
            {"foreign": "runfile", "foreign_traces": ("/usr/bin/nvidia-uninstall",)},
            H100,
            [("driver.foreign", "warn", "none", "runfile installer")],
            id="runfile",
        ),
    ],
)
def test_findings(changes, device, expected):
    found = list(driver.judge(dataclasses.replace(GOOD, **changes), [device]))
    assert [(finding.code, finding.verdict, finding.action) for finding in found] == [entry[:3] for entry in expected]
    for finding, entry in zip(found, expected):
        assert entry[3] in finding.message


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, ["driver.not_installed"]),
        ({"secure_boot": True, "mok_enrolled": False}, ["driver.not_installed", "driver.secure_boot_no_key"]),
        ({"secure_boot": True, "mok_enrolled": True}, ["driver.not_installed"]),
        (NEXT, ["driver.not_installed"]),
    ],
)
def test_bare_node(changes, codes):
    assert [finding.code for finding in driver.judge(dataclasses.replace(BARE, **changes), [H100])] == codes


def test_headers_are_named_where_they_are_missing():
    reading = dataclasses.replace(GOOD, **NEXT, modules={"6.1": BUILT, "6.5": None})
    assert "linux-headers-6.5" in next(driver.judge(reading, [H100])).advice
    reading = dataclasses.replace(reading, headers={"6.1": True, "6.5": True})
    assert "dkms autoinstall -k 6.5" in next(driver.judge(reading, [H100])).advice


@pytest.mark.parametrize(
    ("changes", "required"),
    [
        ({}, False),
        ({"library": "580.105.08"}, True),
        ({"modules": {"6.1": Module("590.44.01")}}, True),
        ({"modules": {"6.1": Module(None)}}, False),
        ({"loaded": None}, False),
    ],
)
def test_reboot_required(changes, required):
    assert driver.reboot_required(dataclasses.replace(GOOD, **changes)) is required
