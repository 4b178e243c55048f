# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._cli.parse_kernel_log import answer
from hypothesis import given
from hypothesis import strategies as st

LOST = "[ 4711.250000] NVRM: Xid (PCI:0000:3d:00): 79, pid=2211, name=train.py, GPU has fallen off the bus.\n"
QUIET = "[    0.000000] Linux version 6.8.0-31-generic\n[    7.100000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15\n"

_KEYS = {
    *("verdict", "action", "events", "sxids", "non_xid", "aer", "oom", "storage", "other", "incidents"),
    *("rate_limited", "suppressed", "unreadable_records", "boots", "recovered", "affected", "time"),
}


def test_every_key_of_the_contract_is_there_and_it_is_json() -> None:
    found = answer(LOST, None)

    assert set(found) >= _KEYS
    assert json.loads(json.dumps(found)) == found


def test_lost_gpu() -> None:
    found = answer(LOST, None)

    assert (found["verdict"], found["action"]) == ("fail", "reseat")
    (event,) = found["events"]
    assert (event["xid"], event["pci"], event["pid"], event["name"], event["count"]) == (79, "0000:3d:00", 2211, "train.py", 1)
    assert event["message"] == "GPU has fallen off the bus."
    (incident,) = found["incidents"]
    assert (incident["root_xid"], incident["xids"], incident["verdict"]) == (79, [79], "fail")


@pytest.mark.parametrize(
    ("text", "rc", "verdict", "action"),
    [
        pytest.param(QUIET, None, "pass", "none", id="quiet-boot"),
        pytest.param(QUIET, 0, "pass", "none", id="quiet-boot-status-0"),
        pytest.param(QUIET, 1, "unknown", "none", id="quiet-boot-but-the-tool-failed"),
        pytest.param(LOST, 1, "fail", "reseat", id="a-fault-counts-whatever-the-status"),
        pytest.param("", None, "unknown", "none", id="empty"),
        pytest.param("Dear Jana,\nthe cluster is fine.\n", None, "unknown", "none", id="a-letter"),
        pytest.param(LOST.encode(), None, "fail", "reseat", id="bytes"),
        pytest.param(b"\xff\xfe\x00" + LOST.encode(), None, "fail", "reseat", id="bytes-that-are-no-text"),
    ],
)
def test_verdict(text: t.Union[str, bytes], rc: t.Optional[int], verdict: str, action: str) -> None:
    found = answer(text, rc)

    assert (found["verdict"], found["action"]) == (verdict, action)


def test_old_snippet_is_judged_as_of_its_own_time() -> None:
    line = "2021-02-03T04:05:06+0000 node kernel: NVRM: Xid (PCI:0000:3d:00): 63, pid=1, Row Remapper: New row marked for remapping\n"

    assert answer(line, None)["verdict"] == "warn"


def test_nvlink5_event_carries_the_word_and_the_sheet() -> None:
    line = "kernel: NVRM: Xid (PCI:0001:22:00): 145, RLW_RSPCOL Nonfatal XC0 i0 Link 7 (0x000000a2 0x00000002 0x0 0x0)\n"

    (event,) = answer(line, None)["events"]

    detail = event["detail"]
    assert (detail["severity"], detail["severity_word"], detail["conflict"]) == ("nonfatal", "nonfatal", True)
    assert (detail["sheet_severity"], detail["sheet_action"]) == ("critical", "reset_gpu")


def test_non_xid_aer_oom_storage_and_switch_keep_their_names() -> None:
    text = (
        "[  10.000000] NVRM: GPU 0000:3d:00.0: RmInitAdapter failed! (0x24:0x65:1497)\n"
        "[  11.000000] pcieport 0000:3a:01.0: AER: Correctable error message received from 0000:3d:00.0\n"
        "[  11.000010] pcieport 0000:3a:01.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n"
        "[  12.000000] Out of memory: Killed process 811 (loader) total-vm:11kB, anon-rss:4kB, file-rss:3kB, shmem-rss:0kB\n"
        "[  13.000000] nvme nvme4: Removing after probe failure status: -19\n"
        "[  14.000000] nvidia-nvswitch3: SXid (PCI:0000:c8:00.0): 12028, Non-fatal, Link 11 egress non-posted PRIV error\n"
    )

    found = answer(text, None)

    assert [(one["kind"], one["pci"], one["code"]) for one in found["non_xid"]] == [("rm_init_failed", "0000:3d:00", "0x24:0x65:1497")]
    assert [(one["port"], one["severity"], one["type"]) for one in found["aer"]] == [("0000:3a:01.0", "correctable", "Physical Layer")]
    assert [(one["pid"], one["name"], one["scope"]) for one in found["oom"]] == [(811, "loader", "global")]
    assert [(one["kind"], one["dev"], one["errno"]) for one in found["storage"]] == [("nvme_removed", "nvme4", -19)]
    assert [(one["sxid"], one["switch"], one["link"]) for one in found["sxids"]] == [(12028, 3, 11)]
    assert (found["verdict"], found["action"]) == ("fail", "contact_vendor")


@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.sampled_from(
                [
                    LOST,
                    "NVRM: Xid (PCI:0000:3d:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
                    "Xid (PCI:",
                    "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Severity 1 Engine instance 60 Sub-engine instance 00",
                    "-- Reboot --",
                    "\x00\x1b[31m",
                ]
            ),
        ),
        max_size=8,
    ),
    st.sampled_from([None, 0, 1, -9]),
)
def test_no_text_raises_and_the_answer_is_always_json(lines: t.List[str], rc: t.Optional[int]) -> None:
    found = answer("\n".join(lines), rc)

    json.dumps(found)
    assert found["verdict"] in ("pass", "warn", "fail", "unknown")
    assert not rc or found["verdict"] in ("unknown", "fail")
