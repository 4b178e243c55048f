# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import BOOT, OTHER_BOOT, journal, parse

ZERO_BOOT = "0" * 32


def xid(bus: int, stamp: str = "") -> str:
    return "%sNVRM: Xid (PCI:0000:%02x:00): 79, pid=0, GPU has fallen off the bus." % (stamp, bus)


def boots(text: str, **options: t.Any) -> t.Tuple[int, t.Dict[t.Optional[str], t.Optional[str]]]:
    log = parse(text, **options)
    return log.boots, {event.pci[5:7]: event.origin.boot for event in log.events}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(xid(1), (1, {"01": None}), id="nothing tells boots apart"),
        pytest.param(
            "\n".join([xid(1), "-- Boot %s --" % BOOT, xid(2)]), (2, {"01": "previous", "02": "current"}), id="systemd 249 marker"
        ),
        pytest.param(
            "\n".join([xid(1), "\x1b[0;1;39m-- Boot %s --\x1b[0m" % BOOT, xid(2)]),
            (2, {"01": "previous", "02": "current"}),
            id="coloured marker",
        ),
        pytest.param("\n".join([xid(1), "-- Reboot --", xid(2)]), (2, {"01": "previous", "02": "current"}), id="older marker"),
        pytest.param("\n".join(["-- Boot %s --" % BOOT, xid(2)]), (1, {"02": "current"}), id="marker before everything"),
        pytest.param(
            "\n".join(["-- Logs begin at Sun 2026-03-01 00:00:00 CET. --", "-- Reboot --", xid(2)]),
            (1, {"02": "current"}),
            id="marker behind a heading",
        ),
        pytest.param("\n".join([xid(1), "-- Reboot --"]), (1, {"01": None}), id="marker with nothing behind it"),
        pytest.param(
            "\n".join([xid(1), "-- Reboot --", "Mar 07 09:05:01 gx7 kernel: usb 1-4: quiet"]),
            (2, {"01": "previous"}),
            id="quiet boot behind the marker",
        ),
        pytest.param(
            "\n".join([xid(1, "[ 9000.100000] "), "[    0.000000] Linux version 6.8.0-60 (build)", xid(2, "[   40.000000] ")]),
            (2, {"01": "previous", "02": "current"}),
            id="banner with the clock at zero",
        ),
        pytest.param(
            "\n".join(["[    0.000000] Linux version 6.8.0-60 (build)", xid(2, "[   40.000000] ")]),
            (1, {"02": "current"}),
            id="banner at the head",
        ),
        pytest.param(
            "\n".join(
                [
                    "[    0.000000] microcode: updated early to revision 0x2b",
                    "[    0.000000] Linux version 6.8.0-60",
                    xid(2, "[   40.000000] "),
                ]
            ),
            (1, {"02": "current"}),
            id="a line before the banner",
        ),
        pytest.param(
            "\n".join(["[ 8000.000000] usb 1-4: quiet", "[    0.000000] Linux version 6.8.0-60", xid(2, "[   40.000000] ")]),
            (2, {"02": "current"}),
            id="quiet boot before the banner",
        ),
        pytest.param(
            "\n".join(["$ dmesg -T | less", "[    0.000000] Linux version 6.8.0-60", xid(2, "[   40.000000] ")]),
            (1, {"02": "current"}),
            id="prompt before the banner",
        ),
        pytest.param(
            "\n".join([xid(1, "[ 9000.100000] "), xid(2, "[   40.000000] ")]),
            (2, {"01": "previous", "02": "current"}),
            id="clock starts anew without a banner",
        ),
        pytest.param(
            "\n".join([xid(1, "[ 9000.100000] "), xid(2, "[ 8999.900000] ")]),
            (1, {"01": None, "02": None}),
            id="lines a little out of order",
        ),
        pytest.param(
            "\n".join([xid(1, "[2397166.100000] "), xid(2, "[470907.900000] ")]),
            (1, {"01": None, "02": None}),
            id="pieces of two logs, no wall clock",
        ),
        pytest.param(
            "\n".join([xid(1, "Mar 07 09:05:01 gx7 kernel: [900000.100000] "), xid(2, "Mar 09 09:05:01 gx7 kernel: [20000.100000] ")]),
            (2, {"01": "previous", "02": "current"}),
            id="clock falls while the days go on",
        ),
        pytest.param(
            "\n".join([xid(1, "Mar 09 09:05:01 gx7 kernel: [900000.100000] "), xid(2, "Mar 07 09:05:01 gx7 kernel: [727200.100000] ")]),
            (1, {"01": None, "02": None}),
            id="both clocks go back: pasted out of order",
        ),
        pytest.param(
            "\n".join(
                [
                    xid(1, "Mar 07 09:05:01 gx7 kernel: "),
                    "-- Boot %s --" % BOOT,
                    "Mar 07 10:00:00 gx7 kernel: Linux version 6.8",
                    xid(2, "Mar 07 10:05:01 gx7 kernel: "),
                ]
            ),
            (2, {"01": "previous", "02": "current"}),
            id="marker and banner are one boot",
        ),
        pytest.param(
            "\n".join([xid(1, "[ 9000.000000] "), "gx7 agent: quoted [ 3606.800000] " + xid(2)]),
            (1, {"01": None, "02": None}),
            id="quoted stamp is no clock",
        ),
    ],
)
def test_boots_in_text(text, expected):
    assert boots(text) == expected


@pytest.mark.parametrize(
    ("records", "options", "expected"),
    [
        pytest.param([(1, BOOT)], {}, (1, {"01": "current"}), id="one boot"),
        pytest.param([(1, BOOT), (2, OTHER_BOOT)], {}, (2, {"01": "previous", "02": "current"}), id="the last one is current"),
        pytest.param([(1, BOOT), (2, OTHER_BOOT)], {"current_boot": BOOT}, (2, {"01": "current", "02": "previous"}), id="named"),
        pytest.param(
            [(1, BOOT)],
            {"current_boot": "c0ffee00-d1b2-4d0f-9f6a-2b7c8d9e0a1b"},
            (1, {"01": "previous"}),
            id="named with dashes, nothing of it in the log",
        ),
        pytest.param([(1, ZERO_BOOT), (2, ZERO_BOOT)], {}, (1, {"01": None, "02": None}), id="zeros of systemd 252"),
        pytest.param([(1, BOOT), (None, OTHER_BOOT)], {}, (2, {"01": "previous"}), id="current boot with nothing to tell"),
        pytest.param([(1, BOOT), (None, OTHER_BOOT), (2, BOOT)], {}, (2, {"01": "current", "02": "current"}), id="records not in order"),
    ],
)
def test_boots_in_a_json_journal(records, options, expected):
    lines = [journal("quiet" if bus is None else xid(bus), _BOOT_ID=boot) for bus, boot in records]
    assert boots("\n".join(lines), **options) == expected


def test_each_machine_of_a_collected_log_has_its_own_boots():
    text = "\n".join(
        [
            xid(1, "Mar 07 09:00:00 gx1 kernel: [900000.000000] "),
            xid(2, "Mar 07 09:00:01 gx2 kernel: [500000.000000] "),
            xid(3, "Mar 07 10:00:00 gx1 kernel: [  100.000000] "),
            xid(4, "Mar 07 10:00:01 gx2 kernel: [503600.000000] "),
        ]
    )
    assert boots(text) == (2, {"01": "previous", "02": None, "03": "current", "04": None})


def test_loss_in_the_boot_before_does_not_hide_one_of_this_boot():
    text = "\n".join([xid(1), "-- Reboot --", "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus."])
    assert [(one.kind, one.pci, one.origin.boot) for one in parse(text).driver_faults] == [("gpu_lost", "0000:01:00", "current")]


def test_equal_events_of_two_boots_are_two():
    assert [(one.count, one.origin.boot) for one in parse("\n".join([xid(1), xid(1), "-- Reboot --", xid(1)])).events] == [
        (2, "previous"),
        (1, "current"),
    ]
