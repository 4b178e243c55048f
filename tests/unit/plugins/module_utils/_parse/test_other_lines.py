# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            (
                "trainer[8123]: segfault at 10 ip 00007f9c2a sp 00007ffd error 4 in libnccl.so.2.21.5[7f9c2a000000+1f000000] likely "
                "on CPU 9 (core 9, socket 0)"
            ),
            ("segfault", "trainer", 8123, "libnccl.so.2.21.5"),
            id="segfault, kernel 6.8",
        ),
        pytest.param(
            "trainer[8123]: segfault at 10 ip 00007f9c2a sp 00007ffd error 4",
            ("segfault", "trainer", 8123, None),
            id="segfault without a library",
        ),
        pytest.param(
            "my prog:1[8123]: segfault at 10 ip 0 sp 0 error 4 cpu 3 in libc.so.6[7f+1]",
            ("segfault", "my prog:1", 8123, "libc.so.6"),
            id="blanks and colons in the name",
        ),
        pytest.param(
            "traps: trainer[8123] general protection fault ip:7f sp:7f error:0 in libcuda.so.570[7f+1]",
            ("general_protection", "trainer", 8123, "libcuda.so.570"),
            id="protection fault",
        ),
        pytest.param(
            'irq 47: nobody cared (try booting with the "irqpoll" option)', ("irq_nobody_cared", None, None, None), id="interrupt"
        ),
        pytest.param("pcieport 0000:60:03.1: pciehp: Slot(4): Link Down", ("pciehp_link_down", None, None, None), id="slot lost its link"),
        pytest.param(
            "pcieport 0000:60:03.1: pciehp: Slot(4): Card not present", ("pciehp_card_not_present", None, None, None), id="slot empty"
        ),
        pytest.param(
            (
                "gx7 nv-fabricmanager[41]: request to query NVSwitch device information from NVSwitch driver failed with "
                "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
            ),
            ("fabricmanager_no_switch", None, None, None),
            id="Fabric Manager without a switch",
        ),
    ],
)
def test_events(text, expected):
    for line in (text, "Mar 07 09:05:01 gx7 kernel: [ 7001.250000] " + text):
        (event,) = parse(line).other
        assert (event.kind, event.process, event.pid, event.library) == expected
        assert not event.informational


def test_narrow_link_is_told_but_no_failure():
    (event,) = parse(
        "mlx5_core 0000:61:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:60:03.1 "
        "(capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)"
    ).other
    assert (event.kind, event.informational) == ("pcie_bandwidth_limited", True)


@pytest.mark.parametrize(
    "text",
    [
        "pciehp: Slot(4): Link Up",
        "pcieport 0000:60:03.1: pciehp: Slot #4 AttnBtn- PwrCtrl- MRL-",
        "x: segfault handler installed",
        "irq 47: affinity set",
    ],
)
def test_lines_that_are_no_event(text):
    assert parse(text).other == ()


@pytest.mark.parametrize(
    ("text", "suppressed", "rate_limited"),
    [
        ("print_req_error: 4 callbacks suppressed", 4, False),
        ("printk: 12 messages suppressed.", 12, False),
        ("gx7 systemd-journald[311]: Missed 40 kernel messages", 40, False),
        ("gx7 systemd-journald[311]: Suppressed 31 messages from kernel", 31, False),
        ("gx7 systemd-journald[311]: Suppressed 31 messages from nginx.service", 0, False),
        ("** 7 printk messages dropped ** [ 7001.250000] usb 1-4: x", 7, False),
        ("gx7 rsyslogd[9]: imjournal: 1500 messages lost due to rate-limiting (20000 allowed within 600 seconds)", 1500, False),
        ("gx7 rsyslogd[9]: imuxsock[pid 3]: begin to drop messages due to rate-limiting", 0, True),
        ("gx7 systemd-journald[311]: /dev/kmsg buffer overrun, some messages lost.", 0, True),
        ("kauditd_printk_skb: 90 callbacks suppressed", 0, False),
        ("print_req_error: 4 callbacks suppressed\nnet_ratelimit: 3 callbacks suppressed", 7, False),
    ],
)
def test_lines_that_say_others_are_missing(text, suppressed, rate_limited):
    log = parse(text)
    assert (log.suppressed, log.rate_limited) == (suppressed, rate_limited)


XID = "NVRM: Xid (PCI:0000:4b:00): 31, pid=8, name=a, Ch 0000000c"


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param([XID, "message repeated 5 times: [ %s]" % XID], 6, id="rsyslog"),
        pytest.param([XID, "message repeated 5 times: [ [ 7001.250000] %s]" % XID], 6, id="rsyslog, kernel stamp inside"),
        pytest.param(["message repeated 5 times: [ %s]" % XID], 5, id="rsyslog, first one lost"),
        pytest.param([XID, "last message repeated 3 times"], 4, id="syslogd"),
        pytest.param([XID, "", "last message repeated 3 times"], 4, id="blank line between"),
        pytest.param([XID, "usb 1-4: quiet", "last message repeated 3 times"], 1, id="another line was repeated"),
        pytest.param(
            [XID, "last message repeated 3 times", "last message repeated 2 times"], 4, id="a repeated repetition says nothing new"
        ),
    ],
)
def test_repetition(lines, count):
    prefixed = ["Mar  7 09:05:01 gx7 %s%s" % ("" if line.startswith("last") else "kernel: ", line) if line else "" for line in lines]
    for text in ("\n".join(lines), "\n".join(prefixed)):
        assert [one.count for one in parse(text).events] == [count]


def test_repetition_of_a_line_beyond_reach_of_the_event():
    quiet = ["usb 1-4: quiet"] * 100
    assert [one.count for one in parse("\n".join([XID, *quiet, "last message repeated 3 times"])).events] == [1]
