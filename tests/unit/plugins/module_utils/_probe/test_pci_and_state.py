# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import pci, state


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def device(node, address, vendor="0x10de", kind="0x030200", driver=None):
    folder = node / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")
    if driver:
        target = node / "sys/bus/pci/drivers" / driver
        target.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(target)


def test_only_gpus_that_nobody_else_holds_are_listed(node):
    device(node, "0000:17:00.0", driver="nvidia")
    device(node, "0000:2A:00.0")  # off the bus: no driver could bind
    device(node, "0000:2a:00.1", kind="0x040300")  # its audio function
    device(node, "0000:3d:00.0", kind="0x030000", driver="vfio-pci")  # given to a virtual machine
    device(node, "0000:06:00.0", kind="0x068000")  # NVSwitch
    device(node, "0000:00:02.0", vendor="0x8086", kind="0x030000")
    assert pci.nvidia_gpus() == ("0000:17:00", "0000:2a:00")


def test_no_bus_is_not_an_empty_bus(node):
    assert pci.nvidia_gpus() is None


def test_container_with_some_of_the_gpus_proves_nothing(node, monkeypatch):
    device(node, "0000:17:00.0")
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "0,1")
    assert pci.nvidia_gpus() is None


def test_state_comes_back_as_written(node):
    assert state.save("/var/lib/x/state.json", {"kernel_log": {"cursor": "c"}}) is None
    assert state.load("/var/lib/x/state.json") == ({"kernel_log": {"cursor": "c"}}, None)


def test_no_state_is_no_complaint(node):
    assert state.load("/var/lib/x/state.json") == ({}, None)


@pytest.mark.parametrize("content", ["", "{", "[1]", "\x00\xff"])
def test_damaged_state_is_a_complaint_and_not_a_crash(node, content):
    (node / "state.json").write_text(content)
    loaded, complaint = state.load("/state.json")
    assert loaded == {}
    assert "state.json" in complaint


def test_state_that_cannot_be_written_is_a_complaint_and_leaves_nothing(node):
    (node / "file").write_text("")
    assert "cannot be written" in state.save("/file/state.json", {})
    assert sorted(path.name for path in node.iterdir()) == ["file"]
