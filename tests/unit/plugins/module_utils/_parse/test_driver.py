# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import driver
from ansible_collections.kentino.gpu.plugins.module_utils._parse.driver_records import Module
from hypothesis import given, settings
from hypothesis import strategies as st

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder@U22)  Thu Feb 27 2025\n"
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc 12.3.0\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(OPEN, ("570.124.06", "open"), id="open"),
        pytest.param(PROPRIETARY, ("535.104.05", "proprietary"), id="proprietary"),
        pytest.param(OPEN.replace("x86_64", "aarch64"), ("570.124.06", "open"), id="ARM"),
        pytest.param(OPEN[:40], (None, None), id="cut"),
        pytest.param("", (None, None), id="empty"),
        pytest.param("NVRM version: something else\n", (None, None), id="garbled"),
    ],
)
def test_loaded(text, found):
    assert driver.loaded(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "filename:       /lib/modules/6.1.0-13-amd64/updates/dkms/nvidia.ko\nlicense:        Dual MIT/GPL\nversion:        580.95.05\n"
            "srcversion:     1F\nsig_id:         PKCS#7\nsigner:         DKMS module signing key\n",
            Module("580.95.05", "open", True),
            id="modinfo of kmod 30, signed",
        ),
        pytest.param("license:        NVIDIA\nversion:        535.261.03\n", Module("535.261.03", "proprietary", False), id="unsigned"),
        pytest.param("version=580.95.05\nlicense=Dual MIT/GPL\nsigner=me\n", Module("580.95.05", "open", True), id="text"),
        pytest.param("\0license=NVIDIA\0version=580.95.05\0", Module("580.95.05", "proprietary", False), id="section of the module"),
        pytest.param("version: soon\n", Module(None, None, False), id="no version"),
        pytest.param("", Module(), id="empty"),
    ],
)
def test_module(text, found):
    assert driver.module(text) == found


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libnvidia-ml.so.580.95.05", "580.95.05"),
        ("libnvidia-ml.so.580.105.08.1", "580.105.08.1"),
        ("libnvidia-ml.so.1", None),
        ("libnvidia-ml.so", None),
        ("libcuda.so.580.95.05", None),
    ],
)
def test_library(name, version):
    assert driver.library(name) == version


@pytest.mark.parametrize(
    "releases",
    [
        pytest.param(["6.1.0-9-amd64", "6.1.0-13-amd64"], id="Debian"),
        pytest.param(["5.15.0-99-generic", "5.15.0-100-generic", "6.8.0-45-generic"], id="Ubuntu"),
        pytest.param(["5.14.0-427.9.1.el9_4.x86_64", "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-503.el9.x86_64"], id="RHEL"),
        pytest.param(["6.12.0-rc1", "6.12.0-rc2", "6.12.0", "6.12.0-1-amd64"], id="release candidates"),
    ],
)
def test_kernels_sort_as_boot_loaders_sort_them(releases):
    turned = releases[::-1]
    assert sorted(turned, key=driver.kernel_key) == releases


def test_boot_entry_of_rhel():
    text = "title Red Hat Enterprise Linux\nversion 5.14.0-503.el9.x86_64\nlinux /vmlinuz-5.14.0-503.el9.x86_64\n"
    assert driver.boot_entry(text) == "5.14.0-503.el9.x86_64"
    assert driver.boot_entry("title x\nlinux /boot/vmlinuz-6.1.0-9-amd64\n") == "6.1.0-9-amd64"
    assert driver.boot_entry("title x\n") is None


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("# GRUB Environment Block\nsaved_entry=abc-5.14\nboot_success=0\n####", "abc-5.14"),
        ("saved_entry=abc-5.14\nnext_entry=abc-6.1\n", "abc-6.1"),
        ("saved_entry=\n", None),
        ("", None),
    ],
)
def test_saved_entry_of_grub(text, entry):
    assert driver.saved_entry(text) == entry


@pytest.mark.parametrize(
    ("path", "said", "owned"),
    [
        ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580", "libnvidia-ml1:amd64: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580\n", True),
        pytest.param("/usr/lib64/x.so", "some: /lib64/x.so\n", True, id="merged /usr, the package says /lib64"),
        pytest.param("/lib/x.so", "some: /usr/lib/x.so\n", True, id="merged /usr, the loader says /lib"),
        pytest.param("/usr/lib/x.so", "diversion by glx from: /usr/lib/x.so\n", False, id="a diversion is no owner"),
        pytest.param("/usr/lib/x.so", "some: /usr/lib/x.so.1\n", False, id="another file"),
        ("/usr/lib/x.so", "dpkg-query: no path found matching pattern /usr/lib/x.so\n", False),
    ],
)
def test_owner_of_a_file(path, said, owned):
    assert driver.unowned([path], said) == (() if owned else (path,))


@settings(deadline=None)
@given(st.text())
def test_no_text_raises(text):
    driver.loaded(text)
    driver.module(text)
    driver.library(text)
    driver.kernel_key(text)
    driver.boot_entry(text)
    driver.saved_entry(text)
    driver.unowned([text], text)
