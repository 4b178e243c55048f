# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is there of hardware, kernels and driver, without asking the driver itself. Private to kentino.gpu."""

from __future__ import annotations

import glob
import os
import re
import typing as t

from .._knowledge import driver as knowledge
from .._parse import driver as parse
from .._parse.driver_records import Device, DriverReading, Module
from . import command
from .root import under_root

_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
_BRIDGE_CLASS = "0x0680"
_EFI = "/sys/firmware/efi"
_GLOBAL, _SHIM = "8be4df61-93ca-11d2-aa0d-00e098032b8c", "605dab50-e046-4300-abb6-3dd810dd8b23"
# An EFI variable begins with four bytes of attributes.
_ATTRIBUTES = 4
_MODULE_SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
_LIBRARY_LINK = "libnvidia-ml.so.1"
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/lib/wsl/lib",
)  # fmt: skip
# A module as text is no module: test nodes have such.
_TEXT_BYTES = 1 << 12


def read(deadline_seconds: float = 20) -> DriverReading:
    """Everything. Nothing that is missing raises."""
    devices = _devices()
    loaded, loaded_flavour = parse.loaded(_text("/proc/driver/nvidia/version"))
    if loaded is None:
        loaded = _text("/sys/module/nvidia/version").strip() or None
    running = os.uname().release
    next_boot = _next_boot() or running
    kernels = sorted({running, next_boot})
    files = {kernel: _module_file(kernel) for kernel in kernels}
    library_path = _library()
    secure_boot = _secure_boot()
    certificate = next((path for path in knowledge.SIGNING_CERTIFICATES if os.path.isfile(_place(path))), None)
    foreign, traces = _foreign(library_path, [path for path in files.values() if path], deadline_seconds)
    return DriverReading(
        gpus=None if devices is None else tuple(found for kind, found in devices if kind == "gpu"),
        nvswitches=tuple(found for kind, found in devices or () if kind == "nvswitch"),
        loaded=loaded,
        loaded_flavour=loaded_flavour,
        library=parse.library(os.path.basename(library_path)) if library_path else None,
        library_path=library_path,
        running=running,
        next_boot=next_boot,
        headers={kernel: _has_headers(kernel) for kernel in kernels},
        modules={kernel: _module(path, deadline_seconds) if path else None for kernel, path in files.items()},
        secure_boot=secure_boot,
        certificate=certificate,
        mok_enrolled=_mok_enrolled(certificate),
        nouveau=os.path.isdir(under_root("/sys/module/nouveau")),
        foreign=foreign,
        foreign_traces=traces,
    )


def _place(path: str) -> str:
    """C(path) below KENTINO_GPU_ROOT where that holds such a tree: it may hold the kernel's files only (/proc, /sys)."""
    top = "/" + path.split("/")[1]
    rooted = under_root(path)
    return rooted if rooted != path and os.path.isdir(under_root(top)) else path


def _text(path: str) -> str:
    return _bytes(under_root(path)).decode("utf-8", "replace")


def _bytes(path: str, most: int = -1) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read(most)
    except OSError:
        return b""


def _listed(path: str) -> t.List[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _devices() -> t.Optional[t.List[t.Tuple[str, Device]]]:
    root = under_root("/sys/bus/pci/devices")
    try:
        addresses = sorted(os.listdir(root))
    except OSError:
        return None
    found = []
    for address in addresses:
        here = "/sys/bus/pci/devices/%s/" % address
        if _text(here + "vendor").strip() != _NVIDIA:
            continue
        kind, device_id = _text(here + "class").strip(), "10de:" + _text(here + "device").strip().lower()[2:6]
        holder = os.path.basename(os.path.realpath(under_root(here + "driver")))
        device = Device(address.rsplit(".", 1)[0].lower(), device_id, None if holder == "driver" else holder)
        if kind.startswith(_GPU_CLASSES):
            # One that is handed to a virtual machine needs no driver here.
            if not (device.driver or "").startswith("vfio"):
                found.append(("gpu", device))
        elif kind.startswith(_BRIDGE_CLASS) and device_id in knowledge.NVSWITCHES:
            found.append(("nvswitch", device))
    return found


def _next_boot() -> t.Optional[str]:
    for folder in ("/boot/grub2", "/boot/grub"):
        saved = parse.saved_entry(_bytes(_place(folder + "/grubenv"), 4096).decode("utf-8", "replace"))
        if saved and re.match(r"[\w.+~-]+$", saved):
            release = parse.boot_entry(_bytes(_place("/boot/loader/entries/%s.conf" % saved)).decode("utf-8", "replace"))
            if release:
                return release
    kernels = [name[len("vmlinuz-") :] for name in _listed(_place("/boot")) if name.startswith("vmlinuz-")]
    kernels = [kernel for kernel in kernels if "rescue" not in kernel and not kernel.endswith((".old", ".dpkg-bak", ".dpkg-new"))]
    if kernels:
        return max(kernels, key=parse.kernel_key)
    for link in ("/vmlinuz", "/boot/vmlinuz"):
        try:
            target = os.readlink(_place(link))
        except OSError:
            continue
        return os.path.basename(target).partition("vmlinuz-")[2] or None
    return None


def _has_headers(kernel: str) -> bool:
    return os.path.isdir(_resolved("/lib/modules/%s/build" % kernel))


def _resolved(path: str) -> str:
    """Where a chain of links ends; absolute ones stay below the root that _place chooses."""
    here = _place(path)
    for _step in range(16):
        if not os.path.islink(here):
            break
        target = os.readlink(here)
        here = _place(target) if target.startswith("/") else os.path.join(os.path.dirname(here), target)
    return os.path.normpath(here)


def _module_file(kernel: str) -> t.Optional[str]:
    """The file that modprobe would load, as a path of the system."""
    top = "/lib/modules/%s" % kernel
    for folder in knowledge.MODULE_FOLDERS:
        base = _place("%s/%s" % (top, folder))
        found = []
        for path, _folders, names in os.walk(base):
            stems = {name.split(".ko")[0]: name for name in names if name.endswith(_MODULE_SUFFIXES)}
            found += [
                (knowledge.MODULE_NAMES.index(stem), os.path.join(path, name))
                for stem, name in stems.items()
                if stem in knowledge.MODULE_NAMES
            ]
        if found:
            return "%s/%s%s" % (top, folder, min(found)[1][len(base) :])
    return None


def _module(path: str, deadline_seconds: float) -> Module:
    place = _resolved(path)
    content = _bytes(place, _TEXT_BYTES)
    if path.endswith(".ko") and not content.startswith(b"\x7fELF"):
        return parse.module(content.decode("utf-8", "replace"))
    done = command.run(["modinfo", place], deadline_seconds, max_bytes=1 << 20)
    return parse.module(done.stdout.decode("utf-8", "replace")) if done.rc == 0 else Module()


def _library() -> t.Optional[str]:
    """The file behind libnvidia-ml.so.1, as a path of the system, where the loader would look."""
    folders = []
    for path in ["/etc/ld.so.conf", *("/etc/ld.so.conf.d/" + name for name in _listed(_place("/etc/ld.so.conf.d")))]:
        lines = _bytes(_place(path), 1 << 16).decode("utf-8", "replace").splitlines()
        folders += [line.strip() for line in lines if line.startswith("/")]
    for folder in dict.fromkeys([*folders, *_LIBRARY_FOLDERS]):
        link = folder.rstrip("/") + "/" + _LIBRARY_LINK
        if os.path.lexists(_place(link)):
            place = _resolved(link)
            root = _place(folder)[: -len(folder)] if _place(folder).endswith(folder) else ""
            return place[len(root) :] if root and place.startswith(root) else place
    return None


def _secure_boot() -> t.Optional[bool]:
    if not os.path.isdir(under_root(_EFI)):
        return False  # booted by BIOS, or a machine without UEFI
    enabled = _bytes(under_root("%s/efivars/SecureBoot-%s" % (_EFI, _GLOBAL)))
    if len(enabled) != _ATTRIBUTES + 1:
        return None
    # Owners may tell shim not to check; the kernel then takes Secure Boot as off.
    relaxed = _bytes(under_root("%s/efivars/MokSBStateRT-%s" % (_EFI, _SHIM)))
    return enabled[_ATTRIBUTES] == 1 and relaxed[_ATTRIBUTES:] != b"\1"


def _mok_enrolled(certificate: t.Optional[str]) -> t.Optional[bool]:
    if not os.path.isdir(under_root(_EFI + "/efivars")):
        return None
    if certificate is None:
        return False
    content = _bytes(_place(certificate))
    # A long list goes on in MokListRT1, MokListRT2 and so on.
    lists = glob.glob(under_root("%s/efivars/MokListRT*-%s" % (_EFI, _SHIM)))
    return bool(content) and any(content in _bytes(path)[_ATTRIBUTES:] for path in lists)


def _foreign(library: t.Optional[str], modules: t.Sequence[str], deadline_seconds: float) -> t.Tuple[t.Optional[str], t.Tuple[str, ...]]:
    """What kind of driver no package brought, and the files that tell."""
    present = [path for path in knowledge.RUNFILE_TRACES if os.path.lexists(_place(path))]
    # What DKMS built belongs to no package; the source that it was built from does.
    sources = [path for path in modules if "/dkms/" not in path and "/weak-updates/" not in path and not _by_dkms(path)]
    asked = [*present, *([library] if library else []), *sources]
    strange = _unowned(asked, deadline_seconds)
    runfile = tuple(path for path in present if path in strange)
    logs = tuple(path for path in knowledge.RUNFILE_LOGS if os.path.exists(_place(path)))
    if runfile or (strange and logs):
        return "runfile", runfile + tuple(path for path in strange if path not in runfile) + logs
    if library in strange:
        return "library", strange
    return ("module", strange) if strange else (None, ())


def _by_dkms(path: str) -> bool:
    """Whether DKMS keeps a copy of this module: on the RHEL family what it builds goes to C(extra), where packages put theirs too."""
    kernel, name = path.split("/")[3], os.path.basename(path)
    return bool(glob.glob(_place("/var/lib/dkms") + "/nvidia*/*/%s/*/module/%s" % (glob.escape(kernel), name)))


def _unowned(paths: t.Sequence[str], deadline_seconds: float) -> t.Tuple[str, ...]:
    if not paths:
        return ()
    if os.path.isdir(_place("/var/lib/dpkg")):
        names = [name for path in paths for name in parse.spellings(path)]
        done = command.run(["dpkg-query", "--admindir=" + _place("/var/lib/dpkg"), "-S", *names], deadline_seconds)
        # 1: some of them belong to no package.
        answered = done.rc in (0, 1)
        return parse.unowned(paths, done.stdout.decode("utf-8", "replace")) if answered else ()
    strange = []
    for path in paths:
        done = command.run(["rpm", "-qf", path], deadline_seconds)
        if done.rc == 1 and b"not owned by any package" in done.stdout + done.stderr:
            strange.append(path)
    return tuple(strange)
