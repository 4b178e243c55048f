# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import parse

FIELDS = ("kind", "pci", "gpu_index", "minor", "code", "equivalent_xid", "count")


def faults(text):
    """All that is more than diagnosis; absent facts left out."""
    found = []
    for one in parse(text).driver_faults:
        if not one.informational:
            found.append({field: getattr(one, field) for field in FIELDS if getattr(one, field) is not None})
    return found


def of(kind, count=1, **facts):
    return {"kind": kind, "count": count, **facts}


PROBE = [
    "NVRM: The NVIDIA GPU 0000:9a:00.0",
    "NVRM: (PCI ID: 10de:2684) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
]
LOST_AT_PROBE = of("gpu_lost_at_probe", pci="0000:9a:00", equivalent_xid=79)
INIT = "NVRM: GPU 0000:9a:00.0: RmInitAdapter failed! (0x22:0x56:1459)"
MINOR = "NVRM: GPU 0000:9a:00.0: rm_init_adapter failed, device minor number 3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[ 9.100000] " + "\n             ".join(PROBE), [LOST_AT_PROBE], id="probe: dmesg indents the further lines"),
        pytest.param(
            "\n".join("Mar 07 09:05:01 gx7 kernel: " + line for line in PROBE), [LOST_AT_PROBE], id="probe: journald makes three records"
        ),
        pytest.param("Mar  7 09:05:01 gx7 kernel: " + "#012".join(PROBE), [LOST_AT_PROBE], id="probe: rsyslog glues them"),
        pytest.param(" ".join(PROBE), [LOST_AT_PROBE], id="probe: on one line"),
        pytest.param("\n".join(PROBE[:2]), [LOST_AT_PROBE], id="probe: cut before the third line"),
        pytest.param(PROBE[2], [of("gpu_lost_at_probe", equivalent_xid=79)], id="probe: only the third line"),
        pytest.param(PROBE[0], [], id="probe: only the first line says nothing yet"),
        pytest.param(
            "NVRM: GPU 0000:9a:00.0: GPU has fallen off the bus.",
            [of("gpu_lost", pci="0000:9a:00", equivalent_xid=79)],
            id="lost without an Xid",
        ),
        pytest.param(
            "NVRM: GPU at 0000:9a:00.0 has fallen off the bus.",
            [of("gpu_lost", pci="0000:9a:00", equivalent_xid=79)],
            id="lost, driver 340",
        ),
        pytest.param(
            "GPU 0000:9a:00.0: GPU has fallen off the bus.",
            [of("gpu_lost", pci="0000:9a:00", equivalent_xid=79)],
            id="lost, prefix cut off",
        ),
        pytest.param("NVRM: Xid (PCI:0000:9a:00): 79\nNVRM: GPU 0000:9a:00.0: GPU has fallen off the bus.", [], id="second copy of Xid 79"),
        pytest.param("NVRM: GPU 0000:9a:00.0: GPU has fallen off the bus.\nNVRM: Xid (PCI:0000:9a:00): 79", [], id="copy before its Xid"),
        pytest.param(
            "NVRM: Xid (PCI:0000:9b:00): 79\nNVRM: GPU 0000:9a:00.0: GPU has fallen off the bus.",
            [of("gpu_lost", pci="0000:9a:00", equivalent_xid=79)],
            id="loss of another GPU",
        ),
        pytest.param(
            "%s\n%s" % (INIT, MINOR),
            [of("rm_init_failed", pci="0000:9a:00", code="0x22:0x56:1459", minor=3)],
            id="init: two lines, one failure",
        ),
        pytest.param(
            "\n".join([INIT, MINOR] * 40),
            [of("rm_init_failed", 40, pci="0000:9a:00", code="0x22:0x56:1459", minor=3)],
            id="init: at each open",
        ),
        pytest.param(MINOR, [of("rm_init_failed", pci="0000:9a:00", minor=3)], id="init: only the second line"),
        pytest.param(
            INIT + "\n" + INIT.replace("9a", "9b"),
            [of("rm_init_failed", pci="0000:9a:00", code="0x22:0x56:1459"), of("rm_init_failed", pci="0000:9b:00", code="0x22:0x56:1459")],
            id="init: two GPUs",
        ),
        pytest.param(
            "NVRM: RmInitAdapter failed! (0x26:0x38:1170)\nNVRM: rm_init_adapter(0) failed",
            [of("rm_init_failed", code="0x26:0x38:1170")],
            id="init, driver 390: no address",
        ),
        pytest.param(
            "NVRM: GPU5 kgmmuCheckMemSubsysError_IMPL: Memory Subsystem Error detected. x failed.",
            [of("memory_subsystem_error", gpu_index=5)],
            id="memory subsystem, driver 595",
        ),
        pytest.param(
            "NVRM: GPU5 _kgspLogRpcTimeout: ********* GSP Timeout *********",
            [of("gsp_timeout", gpu_index=5, equivalent_xid=119)],
            id="GSP, driver 595",
        ),
        pytest.param(
            "NVRM: _issueRpcAndWait: rpcRecvPoll timedout for fn 76!", [of("gsp_timeout", equivalent_xid=119)], id="GSP without its Xid"
        ),
        pytest.param(
            (
                "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9a:00 (printing 1 of every 30).  The GPU likely needs "
                "to be reset."
            ),
            [of("gsp_timeout", pci="0000:9a:00", equivalent_xid=119)],
            id="GSP, rate limited",
        ),
        pytest.param(
            "NVRM: nvCheckOkFailedNoLog: Check failed: Call timed out [NV_ERR_TIMEOUT] (0x00000065) returned from x @ gpu.c:1",
            [of("driver_check_failed", code="0x00000065")],
            id="check failed by a time-out",
        ),
        pytest.param(
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Object not found [NV_ERR_OBJECT_NOT_FOUND] (0x00000057)",
            [],
            id="the driver talking to itself",
        ),
        pytest.param(
            "nvidia: probe of 0000:9a:00.0 failed with error -1",
            [of("probe_failed", pci="0000:9a:00", code="-1")],
            id="probe failed, kernel 6.8",
        ),
        pytest.param(
            "nvidia 0000:9a:00.0: probe with driver nvidia failed with error -1",
            [of("probe_failed", pci="0000:9a:00", code="-1")],
            id="probe failed, kernel 6.11",
        ),
        pytest.param("e1000e: probe of 0000:9a:00.0 failed with error -1", [], id="probe of another driver"),
        pytest.param("NVRM: The NVIDIA probe routine failed for 2 device(s).", [of("probe_failed")], id="probe routine failed"),
        pytest.param(
            "NVRM: The NVIDIA probe routine was not called for 2 device(s).", [of("probe_not_called")], id="another driver holds the GPU"
        ),
        pytest.param("NVRM: None of the NVIDIA devices were initialized.", [of("probe_failed")], id="none initialised"),
        pytest.param("NVRM: No NVIDIA GPU found.", [of("no_gpu_found")], id="no GPU"),
        pytest.param(
            "NVRM: API mismatch: the client has the version 1.2, but\nNVRM: this kernel module has the version 1.1.  Please\n"
            "NVRM: make sure that this kernel module and all NVIDIA driver\nNVRM: components have the same version.",
            [of("api_mismatch")],
            id="four lines, one mismatch",
        ),
        pytest.param(
            (
                "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
                "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:9a:00.0)\nNVRM: The system BIOS may have misconfigured your GPU."
            ),
            [of("bar_invalid", pci="0000:9a:00")],
            id="BAR: the next line names the GPU",
        ),
        pytest.param(
            (
                "NVRM: The NVIDIA GPU 0000:9a:00.0 (PCI ID: 10de:1b06)\n"
                "NVRM: installed in this system is not supported by open\nNVRM: nvidia.ko because it does not include the required GPU"
            ),
            [of("gpu_unsupported", pci="0000:9a:00")],
            id="open module on an old card",
        ),
        pytest.param(
            "NVRM: GPU 0000:9a:00.0: GPU does not have the necessary power cables connected.",
            [of("power_cables_missing", pci="0000:9a:00")],
            id="power cables",
        ),
    ],
)
def test_faults(text, expected):
    assert faults(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 12:00:00 UTC 2025",
        "NVRM: GPU 0000:9a:00.0: GPU is on Board 1654999000123.",
        (
            "NVRM: A GPU crash dump has been created. If possible, please run\n"
            "NVRM: nvidia-bug-report.sh as root to collect this data before\nNVRM: the NVIDIA kernel module is unloaded."
        ),
        "NVRM: Persistence mode is deprecated and will be removed in a future release. Please use nvidia-persistenced instead.",
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
        "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  570.86.15",
    ],
)
def test_nothing_is_said_of_a_healthy_gpu(text):
    assert parse(text).driver_faults == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NVRM: kflcnCoreDump_IMPL: TRACE: 0c = 0x0000000001f40a10", "driver_trace"),
        ("NVRM:      0    103  GSP_RM_ALLOC                 0x0000000000002081 0x0000000000000004", "driver_trace"),
        ("NVRM:     RISC-V CSR State:", "driver_trace"),
        ("NVRM: something that no driver of today prints", "driver_message"),
    ],
)
def test_diagnosis_is_informational(text, kind):
    assert [(one.kind, one.informational) for one in parse(text).driver_faults] == [(kind, True)]


def test_dump_of_many_lines_is_few_records():
    text = "\n".join("NVRM: GPU3 TRACE: %02x = 0x%016x" % (number, number * 77) for number in range(5000))
    assert [(one.kind, one.count) for one in parse(text).driver_faults] == [("driver_trace", 5000)]


@pytest.mark.parametrize(("xid", "informational"), [(119, True), (175, True), (31, False)])
def test_gsp_timeout_beside_its_xid_is_no_second_failure(xid, informational):
    text = "NVRM: Xid (PCI:0000:9a:00): %d, pid=4, name=a\nNVRM: GPU5 _kgspLogRpcTimeout: ********* GSP Timeout *********" % xid
    assert [one.informational for one in parse(text).driver_faults] == [informational]


def test_rate_limit_makes_counts_lower_bounds():
    assert parse("NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9a:00 (printing 1 of every 30).").rate_limited
