# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import parse

# What stands behind "NVRM: Xid (": xid, pci, gpu instance, compute instance, pid, name, text.
GRAMMAR = [
    pytest.param(
        "PCI:0000:4b:00): 31, pid=81, name=train, Ch 0000000c",
        (31, "0000:4b:00", None, None, 81, "train", "Ch 0000000c"),
        id="driver 515 and later",
    ),
    pytest.param(
        "PCI:0000:4b:00): 31, pid=81, Ch 0000000c", (31, "0000:4b:00", None, None, 81, None, "Ch 0000000c"), id="driver 450: no name"
    ),
    pytest.param(
        "PCI:0000:4b:00): 31, Ch 0000000c, engmask 00000101",
        (31, "0000:4b:00", None, None, None, None, "Ch 0000000c, engmask 00000101"),
        id="no pid",
    ),
    pytest.param("0000:05:00): 13, 0001 00000000", (13, "0000:05:00", None, None, None, None, "0001 00000000"), id="driver 304: no PCI"),
    pytest.param("PCI:0000:4b:00): 61", (61, "0000:4b:00", None, None, None, None, ""), id="nothing behind the number"),
    pytest.param("PCI:0000:4b:00): 61,", (61, "0000:4b:00", None, None, None, None, ""), id="only a comma behind the number"),
    pytest.param(
        "PCI:0000:4b:00) 79 pid=7 name=train GPU has fallen off the bus.",
        (79, "0000:4b:00", None, None, 7, "train", "GPU has fallen off the bus."),
        id="no colon, no commas",
    ),
    pytest.param(
        "PCI:0000:4b:00.0): 79, GPU has fallen off the bus.",
        (79, "0000:4b:00", None, None, None, None, "GPU has fallen off the bus."),
        id="function digit",
    ),
    pytest.param("PCI:0000:10:1f): 63, pid=4, x", (63, "0000:10:1f", None, None, 4, None, "x"), id="device number of a guest"),
    pytest.param("PCI:10000:01:00): 79", (79, "10000:01:00", None, None, None, None, ""), id="domain of five digits"),
    pytest.param(
        "PCI:0000000a:C1:00): 79", (79, "000a:c1:00", None, None, None, None, ""), id="domain of eight digits, letters, upper case"
    ),
    pytest.param("PCI:00000000:C1:00.0): 79", (79, "0000:c1:00", None, None, None, None, ""), id="address as nvidia-smi writes it"),
    pytest.param("PCI:0000:4b:00 GPU-I:03): 94, pid=9, name=a, Ch 5", (94, "0000:4b:00", 3, None, 9, "a", "Ch 5"), id="MIG: GPU instance"),
    pytest.param(
        "PCI:0000:4b:00 GPU-I:03 GPU-CI:01): 94, pid=9, name=a, Ch 5", (94, "0000:4b:00", 3, 1, 9, "a", "Ch 5"), id="MIG: compute instance"
    ),
    pytest.param(
        "PCI:0000:4b:00): 94, pid='<unknown>', name=<unknown>, Ch 5",
        (94, "0000:4b:00", None, None, None, None, "Ch 5"),
        id="unknown process",
    ),
    pytest.param(
        "PCI:0000:4b:00): 94, pid='N/A', name=N/A, Ch 5", (94, "0000:4b:00", None, None, None, None, "Ch 5"), id="process not available"
    ),
    pytest.param(
        "PCI:0000:4b:00): 94, pid=<unknown>, Ch 5", (94, "0000:4b:00", None, None, None, None, "Ch 5"), id="unknown without quotes"
    ),
    pytest.param("PCI:0000:4b:00): 31, name=kwin, Ch 5", (31, "0000:4b:00", None, None, None, "kwin", "Ch 5"), id="name without pid"),
    pytest.param("PCI:0000:4b:00): 31, pid=0, name=, Ch 5", (31, "0000:4b:00", None, None, 0, None, "Ch 5"), id="empty name, pid 0"),
    pytest.param(
        "PCI:0000:4b:00): 31, pid=6, name=nvc:[driver], Ch 5",
        (31, "0000:4b:00", None, None, 6, "nvc:[driver]", "Ch 5"),
        id="name with colon and brackets",
    ),
    pytest.param(
        "PCI:0000:4b:00): 31, pid=6, name=a b-c.d(e), Ch 5",
        (31, "0000:4b:00", None, None, 6, "a b-c.d(e)", "Ch 5"),
        id="name with blanks and parentheses",
    ),
    pytest.param("PCI:0000:4b:00): 31, pid=6, name=a,b, Ch 5", (31, "0000:4b:00", None, None, 6, "a,b", "Ch 5"), id="name with comma"),
    pytest.param(
        "PCI:0000:4b:00): 31, pid=6, name=a, b, Ch 00000005",
        (31, "0000:4b:00", None, None, 6, "a, b", "Ch 00000005"),
        id="name with comma and blank",
    ),
    pytest.param("PCI:0000:4b:00): 31, pid=6, name=train", (31, "0000:4b:00", None, None, 6, "train", ""), id="cut behind the name"),
    pytest.param("PCI:0000:4b:00): 31, pid=6", (31, "0000:4b:00", None, None, 6, None, ""), id="cut behind the pid"),
    pytest.param("PCI:0000:4b:00): 199, news", (199, "0000:4b:00", None, None, None, None, "news"), id="number of a newer driver"),
    pytest.param("PCI:0000:4b:00): 7, old", (7, "0000:4b:00", None, None, None, None, "old"), id="number of one digit"),
    pytest.param("PCI:GPU-4f11a): 79", (79, "GPU-4f11a", None, None, None, None, ""), id="no address where one should be"),
    pytest.param("PCI:\ufffd000:4b:00): 79", (79, "\ufffd000:4b:00", None, None, None, None, ""), id="damaged address"),
]


@pytest.mark.parametrize(("text", "expected"), GRAMMAR)
def test_grammar(text, expected):
    log = parse("[ 7001.250000] NVRM: Xid (" + text)
    fields = ("xid", "pci", "gpu_instance", "compute_instance", "pid", "name", "text")
    assert [tuple(getattr(one, field) for field in fields) for one in log.events] == [expected]
    assert log.unrecognised == ()


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:4b:00): 1234, number too long",
        "NVRM: Xid (PCI:0000:4b:00): 7\ufffd, pid=4",
        "NVRM: Xid (PCI:0000:4b:00): , pid=4",
        "NVRM: Xid (PCI:0000:4b:00): ff, pid=4",
        "NVRM: Xid (PCI:0000:4b:00):",
        "NVRM: Xid (PCI:0000:4b",
        "NVRM: Xid (",
        "NVRM: Xid",
        "NVRM: Xid 79",
        "NVRM: Xid : 79",
        "Xid (PCI:0000:4b:00): 79x, pid=4",
    ],
)
def test_xid_that_cannot_be_read_is_not_dropped(text):
    log = parse("[ 7001.250000] " + text)
    assert log.events == ()
    assert len(log.unrecognised) == 1
    assert log.unrecognised[0].startswith("Xid")


@pytest.mark.parametrize(
    "text",
    [
        "Mar 07 09:05:01 gx7 systemd[1]: Started watcher.service - Tells of NVRM: Xid messages.",
        "Mar 07 09:05:01 gx7 systemd[1]: Started watcher.service - Tells of NVRM: Xid",
        "Mar 07 09:05:01 gx7 dhclient[81]: DHCPREQUEST for 10.0.0.2 (xid=0x79481f3a)",
        "Mar 07 09:05:01 gx7 kernel: RPC:    31 4b000001 xid 79000079",
        "Mar 07 09:05:01 gx7 watcher[81]: looking for 'NVRM: Xid (PCI:' with 48, 79, 95",
        'Mar 07 09:05:01 gx7 watcher[81]: pattern "NVRM: Xid (PCI:0000:4b:00)" set',
        r"Mar 07 09:05:01 gx7 watcher[81]: regex NVRM: Xid \(PCI:(.*)\): (\d+)",
        "Mar 07 09:05:01 gx7 watcher[81]: format NVRM: Xid (PCI:%s): %u, %s",
        "Mar 07 09:05:01 gx7 watcher[81]: pattern NVRM: Xid (PCI:*): 79",
        "[ 7001.250000] NVRM: nvCheckOkFailedNoLog: Check failed: busy [NV_ERR_BUSY] (0x00000003) NV2080_CTRL_CMD_INTERNAL_LOG_OOB_XID",
        'DCGM_FI_DEV_XID_ERRORS{gpu="3"} 79',
        "# HELP xid_total Xid (79 and others) by GPU: GPU has fallen off the bus",
        "xid (0x7): 79",
    ],
)
def test_mention_of_xids_is_no_event(text):
    log = parse(text)
    assert (log.events, log.unrecognised) == ((), ())
    assert all(one.informational for one in log.driver_faults)


def test_pattern_with_a_star_and_a_number_is_the_price_of_redacted_addresses():
    # "Xid (PCI:<redacted>): 79" is an event; the address is kept as found.
    assert [(one.xid, one.pci) for one in parse("NVRM: Xid (PCI:<redacted>): 79, pid=5, gone").events] == [(79, "<redacted>")]


def test_messages_that_share_a_line():
    # nv_printf uses KERN_CONT: text may stand behind another driver's unfinished line, and two messages on one.
    log = parse(
        "[ 7001.250000] mlx5_core 0000:0a:00.0: up NVRM: Xid (PCI:0000:4b:00): 79, pid=0, GPU has fallen off the bus."
        "NVRM: Xid (PCI:0000:4c:00): 45, pid=4, name=a, Ch 00000001 Xid (PCI:0000:4d:00): 63, x NVRM: GPU 0000:4e:00.0: GPU "
        "has fallen off the bus."
    )
    assert [(one.xid, one.pci, one.text) for one in log.events] == [
        (79, "0000:4b:00", "GPU has fallen off the bus."),
        (45, "0000:4c:00", "Ch 00000001"),
        (63, "0000:4d:00", "x"),
    ]
    assert [one.pci for one in log.driver_faults] == ["0000:4e:00"]


@pytest.mark.parametrize(
    "text",
    [
        'level=error msg="NVRM: Xid (PCI:0000:4b:00): 79, pid=6, name=train, GPU has fallen off the bus." gpu=3',
        "said 'NVRM: Xid (PCI:0000:4b:00): 79, pid=6, name=train, GPU has fallen off the bus.\\n'",
        "NVRM: Xid (PCI:0000:4b:00): 79, pid=6, name=train, GPU has fallen off the bus.\\r\\n",
        'kept: "NVRM: Xid (PCI:0000:4b:00): 79, pid=6, name=train, GPU has fallen off the bus."',
    ],
)
def test_quoted_copy_reads_as_the_original(text):
    assert [(one.xid, one.pid, one.name, one.text) for one in parse(text).events] == [(79, 6, "train", "GPU has fallen off the bus.")]


def test_old_upper_case_spelling():
    assert [one.xid for one in parse("NVRM: XID (PCI:0000:4b:00): 79").events] == [79]


D = "An uncorrectable double bit error (DBE) has been detected on GPU in the "
DETAILS = [
    pytest.param(
        45, "Ch 0000000b caused by previous Xid 149", {"channel": "0000000b", "root_xid": 149}, id="45, driver 580: the Xid before"
    ),
    pytest.param(
        154,
        "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
        {"from_code": 0, "from_action": "None", "to_code": 4, "to_action": "Drain and Reset"},
        id="154",
    ),
    pytest.param(
        154,
        "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)",
        {"from_code": 2, "from_action": "Node Reboot Required", "to_code": 0, "to_action": "None"},
        id="154 cleared",
    ),
    pytest.param(
        154,
        "GPU recovery action changed from 0x0 (None) to 0x9 (Unknown)",
        {"from_code": 0, "from_action": "None", "to_code": 9, "to_action": "Unknown"},
        id="154 with an unknown code",
    ),
    pytest.param(
        154,
        "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reb",
        {"to_code": 2, "to_action": "Node Reboot Required"},
        id="154 cut in the word",
    ),
    pytest.param(
        154,
        "GPU recovery action changed from 0x1",
        {"from_code": 1, "from_action": "GPU Reset Required"},
        id="154 cut before the new state",
    ),
    pytest.param(
        48,
        D + "framebuffer at physAddr 0x2f3c1000 partition 4, subpartition 1.",
        {"unit": "framebuffer", "physical_address": "0x2f3c1000", "partition": 4, "subpartition": 1},
        id="48 DRAM",
    ),
    pytest.param(48, D + "L2 at physAddr 0x1", {"unit": "L2"}, id="48 SRAM"),
    pytest.param(172, "GSP-RISCV, Uncorrectable SRAM error", {"unit": "GSP-RISCV"}, id="172"),
    pytest.param(
        63,
        "Row Remapper: New row (0x00000000aabbcc00) marked for remapping, reset gpu to activate.",
        {"remap_address": "0x00000000aabbcc00", "pending_reset": True},
        id="63",
    ),
    pytest.param(
        63, "Row Remapper: New row marked for remapping, reset gpu to activate.", {"pending_reset": True}, id="63, driver 510: no address"
    ),
    pytest.param(
        64,
        "Row Remapper Error: (0x00000000aabbcc00) - All reserved rows for bank are remapped",
        {"remap_address": "0x00000000aabbcc00", "reason": "bank exhausted"},
        id="64",
    ),
    pytest.param(
        94, "Contained: SM (0x1). RST: No, D-RST: Yes", {"containment": "contained", "unit": "SM", "rst": False, "d_rst": True}, id="94"
    ),
    pytest.param(
        94,
        "Contained: CE User Channel (0x9). RST: No, D-RST: No",
        {"unit": "CE User Channel", "rst": False, "d_rst": False},
        id="94 of an engine",
    ),
    pytest.param(94, "Ch 00000008", {"channel": "00000008"}, id="94 of a channel"),
    pytest.param(
        95,
        "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No",
        {"containment": "uncontained", "unit": "LTC TAG", "unit_codes": "0x2, 0x1", "rst": True, "d_rst": False},
        id="95",
    ),
    pytest.param(
        95,
        "Uncontained: SYSLTC (0x2, 0x1, 0x0). physAddr: 0x7c0 RST: Yes, D-RST: No",
        {"unit": "SYSLTC", "rst": True, "physical_address": "0x7c0"},
        id="95 with an address",
    ),
    pytest.param(
        31,
        (
            "Ch 00000010, intr 00000000. MMU Fault: ENGINE CE3 HUBCLIENT_CE1 faulted @ 0x7f2a_40001000. Fault is of type "
            "FAULT_RO_VIOLATION ACCESS_TYPE_VIRT_ATOMIC"
        ),
        {
            "channel": "00000010",
            "engine": "CE3",
            "client": "HUBCLIENT_CE1",
            "fault_address": "0x7f2a_40001000",
            "fault_type": "FAULT_RO_VIOLATION",
            "access": "VIRT_ATOMIC",
        },
        id="31",
    ),
    pytest.param(
        137,
        "NVLink remote translation error: faulted @ 0x7f00. Fault is of type FAULT_PTE ACCESS_TYPE_PHYS_READ",
        {"fault_type": "FAULT_PTE", "access": "PHYS_READ"},
        id="137",
    ),
    pytest.param(
        13,
        "Graphics SM Warp Exception on (GPC 3, TPC 5, SM 1): Illegal Address",
        {"gpc": 3, "tpc": 5, "sm": 1, "exception": "Illegal Address"},
        id="13",
    ),
    pytest.param(
        13, "Graphics Exception: ChID 002c, Class 0000cbc0, Offset 00000000, Data 00000000", {"channel": "002c"}, id="13 channel line"
    ),
    pytest.param(31, "Graphics SM Warp Exception on (GPC 3, TPC 5, SM 1): Illegal Address", {"gpc": 3}, id="text of another number"),
    pytest.param(
        69,
        "Class Error: ChId 0008, Class 0000cbc0, Offset 00000184, Data ffffffff, ErrorCode 00000004",
        {"channel": "0008", "errorcode": "00000004"},
        id="69",
    ),
    pytest.param(32, "Channel ID 0000000d intr0 00040000", {"channel": "0000000d"}, id="32"),
    pytest.param(
        109,
        "Ch 00000003, errorString CTX SWITCH TIMEOUT, Info 0x2c014",
        {"channel": "00000003", "error_string": "CTX SWITCH TIMEOUT", "info": "0x2c014"},
        id="109",
    ),
    pytest.param(62, "32260b5e 000154b0 00000000 2026da96", {"words": 4}, id="62"),
    pytest.param(
        74,
        "NVLink: fatal error detected on link 11(0x0, 0x0, 0x10000, 0x0, 0x80000010, 0x0, 0x0)",
        {
            "link": 11,
            "words": 7,
            "registers": ["0x0", "0x0", "0x10000", "0x0", "0x80000010", "0x0", "0x0"],
            "set_bits": {"3": [16], "5": [4, 31]},
        },
        id="74",
    ),
    pytest.param(
        74, "NVLink: failed to train link 3 to remote PCI:0000:4F:00", {"link": 3, "peer": "0000:4f:00"}, id="74: the address is the peer's"
    ),
    pytest.param(74, "NVLink: Failed to train link 3 to remote PCI:0000:4f:00", {"link": 3, "peer": "0000:4f:00"}, id="74, capital letter"),
    pytest.param(
        119,
        "Timeout after 45s of waiting for RPC response from GPU2 GSP! Expected function 103 (GSP_RM_ALLOC) sequence 812 (0x2081 0x4).",
        {"timeout_seconds": 45, "gpu_index": 2, "function": 103, "function_name": "GSP_RM_ALLOC", "sequence": 812},
        id="119, driver 550",
    ),
    pytest.param(
        119,
        "Timeout waiting for RPC from GSP3! Expected function 76 (GSP_RM_CONTROL) (0x1 0x2).",
        {"gpu_index": 3, "function": 76},
        id="119, driver 515",
    ),
    pytest.param(
        120,
        "GSP task exception: load access fault (cause:0x5) @ pc:0x1c8, partition:4#0, task:2",
        {"cause": "load access fault", "cause_code": "0x5"},
        id="120",
    ),
    pytest.param(140, "DRAM:2, LTC:0, MMU:1, PCIE:0", {"dram": 2, "ltc": 0, "mmu": 1, "pcie": 0}, id="140"),
    pytest.param(
        145,
        "RLW_REMAP   Nonfatal   XC1 i1 Link 07 (0x00000082 0x00000040 0x00000000 0x00000001 0x00000000 0x00000000)",
        {
            "subcode": "RLW_REMAP",
            "severity": "nonfatal",
            "xc": 1,
            "injected": 1,
            "link": 7,
            "intrinfo": "0x00000082",
            "errorstatus": "0x00000040",
            "words": 6,
            "debug": ["0x00000000", "0x00000001", "0x00000000", "0x00000000"],
        },
        id="145, padded columns",
    ),
    pytest.param(
        149,
        "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x0 0x0)",
        {"severity": "fatal", "link": -1, "xc": 0, "injected": 0, "words": 4},
        id="149, no link",
    ),
    pytest.param(
        146,
        "TLW_CTRL/RX Fatal XC0 i0 Link 01 (0x1 0x2",
        {"subcode": "TLW_CTRL/RX", "intrinfo": "0x1", "errorstatus": "0x2"},
        id="146 cut, slash in the name",
    ),
]


@pytest.mark.parametrize(("number", "text", "expected"), DETAILS)
@pytest.mark.parametrize(
    "process", ["", "pid=41, name=a, ", "pid='<unknown>', name=<unknown>, "], ids=["no process", "process", "unknown process"]
)
def test_details(number, text, expected, process):
    (event,) = parse("NVRM: Xid (PCI:0000:4b:00): %d, %s%s" % (number, process, text)).events
    assert event.xid == number
    assert {key: event.detail.get(key) for key in expected} == expected


def test_nothing_is_invented_where_the_text_is_silent():
    assert parse("NVRM: Xid (PCI:0000:4b:00): 94, pid=4, name=a").events[0].detail == {}


def test_no_flag_out_of_half_a_word():
    assert "rst" not in parse("NVRM: Xid (PCI:0000:4b:00): 95, Uncontained: LTC TAG (0x2, 0x1). RS").events[0].detail


def test_gpu_announcement_names_uuid_and_serial():
    log = parse(
        "NVRM: GPU at PCI:0000:4b:00: GPU-0a1b2c3d-0000-1111-2222-333344445555\nNVRM: GPU Board Serial Number: 1654999000123\n"
        "NVRM: Xid (PCI:0000:4b:00): 79\nNVRM: GPU at 0000:4c:00: GPU-1a1b2c3d-0000-1111-2222-333344445555\n"
        "NVRM: GPU Board Serial Number: \nNVRM: Xid (PCI:0000:4c:00): 79\nNVRM: Xid (PCI:0000:4d:00): 79"
    )
    assert log.gpu_uuids == {
        "0000:4b:00": "GPU-0a1b2c3d-0000-1111-2222-333344445555",
        "0000:4c:00": "GPU-1a1b2c3d-0000-1111-2222-333344445555",
    }
    assert log.gpu_serials == {"0000:4b:00": "1654999000123"}
    assert [(one.uuid, one.serial) for one in log.events] == [
        ("GPU-0a1b2c3d-0000-1111-2222-333344445555", "1654999000123"),
        ("GPU-1a1b2c3d-0000-1111-2222-333344445555", None),
        (None, None),
    ]
    assert log.driver_faults == ()


def test_card_that_was_swapped_between_boots_has_its_own_uuid():
    log = parse(
        "NVRM: GPU at PCI:0000:4b:00: GPU-0a1b2c3d-0000-1111-2222-333344445555\nNVRM: Xid (PCI:0000:4b:00): 79\n-- Reboot --\n"
        "NVRM: GPU at PCI:0000:4b:00: GPU-1a1b2c3d-0000-1111-2222-333344445555\nNVRM: Xid (PCI:0000:4b:00): 79\n-- Reboot --\n"
        "NVRM: Xid (PCI:0000:4b:00): 79"
    )
    assert [one.uuid and one.uuid[:12] for one in log.events] == ["GPU-0a1b2c3d", "GPU-1a1b2c3d", None]


def test_recovery_actions_keep_their_order():
    to_reset = "NVRM: Xid (PCI:0000:4b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    to_none = "NVRM: Xid (PCI:0000:4b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    lost = "NVRM: Xid (PCI:0000:4b:00): 79, pid=0, GPU has fallen off the bus."
    log = parse("\n".join([lost, to_reset, to_none, lost, to_reset]))
    assert [(one.xid, one.detail.get("to_code"), one.count) for one in log.events] == [
        (79, None, 1),
        (154, 1, 1),
        (154, 0, 1),
        (79, None, 1),
        (154, 1, 1),
    ]
