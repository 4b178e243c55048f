# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import command, driver

KERNEL = os.uname().release
EFI = "sys/firmware/efi/efivars/"
SECURE_BOOT = EFI + "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"


class Root:
    """A node's files below KENTINO_GPU_ROOT."""

    def __init__(self, path):
        self.path = path
        for name in ("boot", "etc", "lib", "usr", "var", "root", "sys/bus/pci/devices"):
            (path / name).mkdir(parents=True)

    def write(self, name, content=""):
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def link(self, name, target):
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def device(self, address, device="0x2330", kind="0x030200", vendor="0x10de", holder=None):
        here = "sys/bus/pci/devices/%s/" % address
        for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
            self.write(here + name, value + "\n")
        if holder:
            (self.path / "sys/bus/pci/drivers" / holder).mkdir(parents=True, exist_ok=True)
            self.link(here + "driver", "../../drivers/" + holder)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    return Root(tmp_path)


@pytest.fixture
def asked(monkeypatch):
    """What tools were asked, and what they shall answer."""
    calls, answers = [], {}

    def run(argv, deadline_seconds, on_stdout=None, max_bytes=0):
        calls.append(argv)
        rc, stdout = answers.get(argv[0], (1, b""))
        return command.Completed(tuple(argv), "ended", rc, stdout)

    monkeypatch.setattr(command, "run", run)
    return calls, answers


def test_hardware_is_read_from_the_bus(root):
    root.device("0000:17:00.0", holder="nvidia")
    root.device("0000:2A:00.0", device="0x2B85", kind="0x030000", holder="nouveau")
    root.device("0000:3d:00.0", holder="vfio-pci")  # given to a virtual machine
    root.device("0000:17:00.1", kind="0x040300")  # audio
    root.device("0000:07:00.0", device="0x22a3", kind="0x068000", holder="nvidia-nvswitch")
    root.device("0000:00:01.0", device="0x0360", kind="0x068000")  # a bridge of an old board
    root.device("0000:00:02.0", vendor="0x8086")
    reading = driver.read()
    assert [(gpu.pci, gpu.device_id, gpu.driver) for gpu in reading.gpus] == [
        ("0000:17:00", "10de:2330", "nvidia"),
        ("0000:2a:00", "10de:2b85", "nouveau"),
    ]
    assert [switch.pci for switch in reading.nvswitches] == ["0000:07:00"]


def test_nothing_at_all_raises_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path / "nowhere"))
    reading = driver.read()
    assert (reading.gpus, reading.loaded, reading.nouveau, reading.secure_boot) == (None, None, False, False)


def test_loaded_module_and_nouveau(root):
    root.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n")
    root.write("sys/module/nouveau/refcnt", "0\n")
    reading = driver.read()
    assert (reading.loaded, reading.loaded_flavour, reading.nouveau) == ("535.104.05", "proprietary", True)


def test_version_without_proc_comes_from_sys(root):
    root.write("sys/module/nvidia/version", "580.95.05\n")
    reading = driver.read()
    assert (reading.loaded, reading.loaded_flavour) == ("580.95.05", None)


def test_library_is_found_through_the_alternatives_of_debian(root, asked):
    folder = "usr/lib/x86_64-linux-gnu/"
    root.write(folder + "nvidia/current/libnvidia-ml.so.535.261.03")
    root.link(folder + "nvidia/current/libnvidia-ml.so.1", "libnvidia-ml.so.535.261.03")
    root.link("etc/alternatives/glx--libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1")
    root.link(folder + "libnvidia-ml.so.1", "/etc/alternatives/glx--libnvidia-ml.so.1")
    reading = driver.read()
    assert reading.library == "535.261.03"
    assert reading.library_path == "/" + folder + "nvidia/current/libnvidia-ml.so.535.261.03"


def test_folder_of_the_loaders_configuration_comes_first(root, asked):
    root.write("etc/ld.so.conf.d/nvidia.conf", "# ours\n/usr/lib/nvidia\n")
    root.link("usr/lib/nvidia/libnvidia-ml.so.1", "libnvidia-ml.so.580.95.05")
    root.link("usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.570.1.1")
    assert driver.read().library == "580.95.05"


def test_next_kernel_is_the_newest_one(root):
    for name in ("vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-13-amd64", "vmlinuz-0-rescue-abc", "vmlinuz-7.0.old", "initrd.img-9.9"):
        root.write("boot/" + name)
    root.write("lib/modules/6.1.0-13-amd64/keep")
    root.link("lib/modules/6.1.0-13-amd64/build", "/usr/src/linux-headers-6.1.0-13-amd64")
    reading = driver.read()
    assert (reading.running, reading.next_boot) == (KERNEL, "6.1.0-13-amd64")
    assert reading.headers == {KERNEL: False, "6.1.0-13-amd64": False}  # the link dangles
    root.write("usr/src/linux-headers-6.1.0-13-amd64/Makefile")
    assert driver.read().headers["6.1.0-13-amd64"] is True


def test_next_kernel_is_the_one_that_grub_remembers(root):
    root.write("boot/vmlinuz-5.14.0-503.el9.x86_64")
    root.write("boot/grub2/grubenv", "saved_entry=abc-5.14.0-427.el9.x86_64\n")
    root.write("boot/loader/entries/abc-5.14.0-427.el9.x86_64.conf", "version 5.14.0-427.el9.x86_64\n")
    assert driver.read().next_boot == "5.14.0-427.el9.x86_64"


def test_next_kernel_by_a_link(root):
    root.link("boot/vmlinuz", "vmlinuz-6.8.0-45-generic")
    assert driver.read().next_boot == "6.8.0-45-generic"


def test_module_that_is_a_text_is_read_without_a_tool(root, asked):
    root.write("lib/modules/%s/updates/dkms/nvidia.ko" % KERNEL, "version=580.95.05\nlicense=NVIDIA\nsigner=me\n")
    found = driver.read().modules[KERNEL]
    assert (found.version, found.flavour, found.signed) == ("580.95.05", "proprietary", True)
    assert [argv for argv in asked[0] if argv[0] == "modinfo"] == []


def test_module_is_asked_of_modinfo_and_the_best_folder_wins(root, asked):
    root.write("lib/modules/%s/kernel/drivers/video/nvidia.ko" % KERNEL, b"\x7fELF")
    root.write("lib/modules/%s/updates/dkms/nvidia.ko.xz" % KERNEL, b"\xfd7zXZ")
    asked[1]["modinfo"] = (0, b"version:        580.95.05\nlicense:        Dual MIT/GPL\n")
    found = driver.read().modules[KERNEL]
    assert (found.version, found.flavour) == ("580.95.05", "open")
    assert [argv[1].rpartition("/modules/")[2] for argv in asked[0] if argv[0] == "modinfo"] == [KERNEL + "/updates/dkms/nvidia.ko.xz"]


@pytest.mark.parametrize(
    ("files", "state"),
    [
        pytest.param({}, False, id="no UEFI"),
        pytest.param({SECURE_BOOT: b"\6\0\0\0\1"}, True, id="on"),
        pytest.param({SECURE_BOOT: b"\6\0\0\0\0"}, False, id="off"),
        pytest.param({SECURE_BOOT: b"\6\0"}, None, id="cut"),
        pytest.param({EFI + "Boot0000-1": b""}, None, id="not told"),
        pytest.param({SECURE_BOOT: b"\6\0\0\0\1", EFI + "MokSBStateRT-" + SHIM: b"\6\0\0\0\1"}, False, id="shim does not check"),
    ],
)
def test_secure_boot(root, files, state):
    for name, content in files.items():
        root.write(name, content)
    assert driver.read().secure_boot is state


def test_key_is_found_in_a_list_that_goes_on(root):
    root.write(SECURE_BOOT, b"\6\0\0\0\1")
    assert driver.read().mok_enrolled is False  # there is none
    root.write("var/lib/dkms/mok.pub", b"0\x82certificate")
    root.write(EFI + "MokListRT-" + SHIM, b"\6\0\0\0another")
    reading = driver.read()
    assert (reading.certificate, reading.mok_enrolled) == ("/var/lib/dkms/mok.pub", False)
    root.write(EFI + "MokListRT1-" + SHIM, b"\6\0\0\0list0\x82certificatelist")
    assert driver.read().mok_enrolled is True


@pytest.mark.parametrize(
    ("files", "owned", "foreign"),
    [
        pytest.param([], b"", None, id="nothing"),
        pytest.param(["library"], b"libnvidia-ml1:amd64: /usr/lib64/libnvidia-ml.so.580.95.05\n", None, id="packaged"),
        pytest.param(["library"], b"", "library", id="copied"),
        pytest.param(["library", "usr/bin/nvidia-uninstall"], b"", "runfile", id="runfile"),
        pytest.param(["library", "var/log/nvidia-installer.log"], b"", "runfile", id="runfile without its uninstaller"),
        pytest.param(["var/log/nvidia-installer.log"], b"", None, id="runfile that was uninstalled"),
        pytest.param(["lib/modules/%s/kernel/drivers/video/nvidia.ko" % KERNEL], b"", "module", id="module by hand"),
        pytest.param(["lib/modules/%s/updates/dkms/nvidia.ko" % KERNEL], b"", None, id="module built by DKMS"),
    ],
)
def test_driver_that_no_package_brought(root, asked, files, owned, foreign):
    root.write("var/lib/dpkg/status")
    for name in files:
        if name == "library":
            root.write("usr/lib64/libnvidia-ml.so.580.95.05")
            root.link("usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.580.95.05")
        else:
            root.write(name)
    asked[1]["dpkg-query"] = (1, owned)
    reading = driver.read()
    assert reading.foreign == foreign
    assert bool(reading.foreign_traces) is (foreign is not None)


def test_module_that_dkms_put_where_the_rhel_family_has_them(root, asked):
    root.write("lib/modules/%s/extra/nvidia.ko.xz" % KERNEL)
    (root.path / "var").joinpath("lib").mkdir(parents=True)
    asked[1]["rpm"] = (1, b"file ... is not owned by any package\n")
    assert driver.read().foreign == "module"
    root.write("var/lib/dkms/nvidia/580.95.05/%s/x86_64/module/nvidia.ko.xz" % KERNEL)
    assert driver.read().foreign is None


def test_tool_that_does_not_answer_accuses_nobody(root, asked):
    root.write("var/lib/dpkg/status")
    root.link("usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.580.95.05")
    asked[1]["dpkg-query"] = (2, b"")
    assert driver.read().foreign is None


def test_rpm_is_asked_where_there_is_no_dpkg(root, asked):
    root.link("usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.580.95.05")
    (root.path / "var").joinpath("lib").mkdir()
    asked[1]["rpm"] = (1, b"file /usr/lib64/libnvidia-ml.so.580.95.05 is not owned by any package\n")
    assert driver.read().foreign == "library"
    asked[1]["rpm"] = (0, b"libnvidia-ml-580.95.05-1.el9.x86_64\n")
    assert driver.read().foreign is None
