# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import log_envelope
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import ENVELOPES, journal, parse

XID = "NVRM: Xid (PCI:0000:4b:00): 31, pid=8123, name=trainer, Ch 0000000c"


@pytest.mark.parametrize("envelope", ENVELOPES.values(), ids=ENVELOPES)
def test_message_is_found_in_every_envelope(envelope):
    log = parse(envelope(XID))
    assert [(one.xid, one.pci, one.pid, one.name, one.text) for one in log.events] == [(31, "0000:4b:00", 8123, "trainer", "Ch 0000000c")]
    assert log.unrecognised == ()
    assert log.kernel_lines >= 1


@pytest.mark.parametrize("envelope", ENVELOPES.values(), ids=ENVELOPES)
def test_str_and_bytes_read_alike(envelope):
    assert parse(envelope(XID)).events == parse(envelope(XID).encode()).events


TIMES = {
    "bare": None,
    "dmesg": None,
    "dmesg -T": "2026-03-07T09:05:01",
    "dmesg -e": "2026-03-07T09:05:00",
    "dmesg iso": "2026-03-07T09:05:01.250113+01:00",
    "dmesg -x iso": "2026-03-07T09:05:01.250113+01:00",
    "journal short": "2026-03-07T09:05:01",
    "journal short-precise": "2026-03-07T09:05:01.250113",
    "journal short-iso, systemd 239": "2026-03-07T09:05:01+01:00",
    "journal short-full": "2026-03-07T09:05:01",
    "journal short-unix": "2026-03-07T08:05:01.250113+00:00",
    "journal json": "2026-03-14T12:00:00.000000+00:00",
    "journal json-pretty": "2026-03-14T12:00:00.000000+00:00",
    "journal export": "2026-03-14T12:00:00.000000+00:00",
    "rsyslog": "2026-03-07T09:05:01",
    "rsyslog RFC 3339": "2026-03-07T09:05:01.250113+01:00",
    "RFC 5424": "2026-03-07T08:05:01.250113Z",
    "RFC 5424 with data": "2026-03-07T08:05:01.250113Z",
    "busybox": "2026-03-07T09:05:01",
    "German month": "2026-03-07T09:05:01",
    "Chinese month": "2026-03-07T09:05:01",
    "unknown month": None,
    "Talos": "2026-03-07T08:05:01.250113947Z",
    "Cloud Logging": "2026-03-14T11:00:00Z",
}


@pytest.mark.parametrize(("name", "time"), TIMES.items(), ids=TIMES)
def test_time(name, time):
    assert parse(ENVELOPES[name](XID)).events[0].origin.time == time


ORIGINS = {
    "dmesg": {"uptime_seconds": 7001.25, "level": None, "host": None},
    "dmesg with caller": {"uptime_seconds": 7001.25},
    "dmesg -x": {"uptime_seconds": 7001.25, "level": "warn"},
    "raw": {"uptime_seconds": 7001.25, "level": "warn"},
    "raw without stamp": {"uptime_seconds": None, "level": "warn"},
    "kmsg": {"uptime_seconds": 7001.25, "level": "warn", "seq": 9127},
    "dmesg -J": {"uptime_seconds": 7.25, "level": "warn"},
    "journal short": {"host": "gx7", "uptime_seconds": None},
    "journal short-monotonic": {"host": "gx7", "uptime_seconds": 7001.250113},
    "journal short-unix": {"host": "gx7", "usec": 1772870701250113},
    "journal json": {"host": "gx7", "usec": 1773489600000000, "level": "warn", "boot": "current"},
    "journal export": {"usec": 1773489600000000, "level": "warn", "boot": "current"},
    "rsyslog": {"host": "gx7", "uptime_seconds": 7001.25},
    "RFC 5424": {"host": "gx7", "level": "warn"},
    "busybox": {"host": None, "level": "warn", "uptime_seconds": 7001.25},
    "Talos": {"host": "10.4.0.9", "level": "warn"},
    "Cloud Logging": {"uptime_seconds": 7001.25},
    "pdsh": {"host": "gx7", "uptime_seconds": 7001.25},
    "paste without the first bracket": {"uptime_seconds": 7001.25},
}


@pytest.mark.parametrize(("name", "facts"), ORIGINS.items(), ids=ORIGINS)
def test_origin(name, facts):
    origin = parse(ENVELOPES[name](XID)).events[0].origin
    assert {key: getattr(origin, key) for key in facts} == facts


def test_tag_that_journald_cut_off_a_message_is_part_of_it():
    # A line written to /dev/kmsg by a process: journald takes its first word for the tag.
    record = journal("Xid (PCI:0000:4b:00): 79, pid=0, GPU has fallen off the bus.", SYSLOG_IDENTIFIER="NVRM")
    lost = journal("GPU 0000:4c:00.0: GPU has fallen off the bus.", SYSLOG_IDENTIFIER="NVRM")
    log = parse(record + "\n" + lost)
    assert [one.xid for one in log.events] == [79]
    assert [(one.kind, one.pci) for one in log.driver_faults] == [("gpu_lost", "0000:4c:00")]


def test_message_that_the_journal_lost_is_counted():
    log = parse("\n".join([journal(None), journal(XID), journal([]), journal([300])]))
    assert (len(log.events), log.unreadable_records) == (1, 3)


def test_journal_record_cut_in_the_middle():
    log = parse(journal(XID).partition("pid=")[0])
    assert ([one.xid for one in log.events], log.unreadable_records) == ([31], 1)


def test_message_of_invalid_utf8_as_numbers():
    log = parse(journal(list(b"NVRM: Xid (PCI:0000:4b:00): 48, pid=77, name=\xff\xc3\x28, x\n")))
    assert [(one.xid, one.pid) for one in log.events] == [(48, 77)]


def test_binary_field_of_an_export():
    message = b"NVRM: Xid (PCI:0000:4b:00): 48\x01\nNVRM: Xid (PCI:0000:4c:00): 63"
    head = b"__REALTIME_TIMESTAMP=1773489600000000\nMESSAGE\n"
    log = parse(head + len(message).to_bytes(8, "little") + message + b"\nPRIORITY=3\n\n__REALTIME_TIMESTAMP=1773489600000001\nMESSAGE=x\n")
    assert [(one.xid, one.pci, one.origin.level) for one in log.events] == [(63, "0000:4c:00", "err")]
    assert log.unrecognised == ("Xid (PCI:0000:4b:00): 48\x01",)


def test_byte_list_of_json_pretty_over_many_lines():
    numbers = ",\n\t\t".join(str(byte) for byte in XID.encode())
    log = parse('{\n\t"__REALTIME_TIMESTAMP" : "1773489600000000",\n\t"MESSAGE" : [\n\t\t%s\n\t],\n\t"PRIORITY" : "4"\n}' % numbers)
    assert [(one.xid, one.name, one.origin.level) for one in log.events] == [(31, "trainer", "warn")]


def test_record_cut_inside_its_bytes_is_unreadable_not_another_xid():
    # "Xid (..): 31" cut behind the 3 would be an Xid 3.
    numbers = ",\n\t\t".join(str(byte) for byte in XID.encode()[:29])
    cut_list = '{\n\t"__REALTIME_TIMESTAMP" : "1773489600000000",\n\t"MESSAGE" : [\n\t\t%s' % numbers
    cut_field = b"__REALTIME_TIMESTAMP=1773489600000000\nMESSAGE\n" + len(XID).to_bytes(8, "little") + XID.encode()[:29]
    for text in (cut_list, cut_list + "\n{", cut_field):
        log = parse(text)
        assert (log.events, log.unreadable_records) == ((), 1)


def test_collector_that_keeps_the_original_beside_its_rendering_says_it_once():
    log = parse('{"message":"%s","event":{"original":"<4>[ 7001.250000] %s"}}' % (XID, XID))
    assert [one.count for one in log.events] == [1]


def test_several_records_in_one_json_document():
    log = parse("[%s,%s]" % (journal(XID), journal(XID.replace("4b", "4c"))))
    assert [one.pci for one in log.events] == ["0000:4b:00", "0000:4c:00"]


def test_newline_that_rsyslog_escaped_parts_two_messages():
    log = parse("Mar  7 09:05:01 gx7 kernel: [ 7001.250000] %s#012%s#011tail" % (XID, XID.replace("4b", "4c")))
    assert [(one.pci, one.text, one.origin.uptime_seconds) for one in log.events] == [
        ("0000:4b:00", "Ch 0000000c", 7001.25),
        ("0000:4c:00", "Ch 0000000c\ttail", 7001.25),
    ]


def test_newline_that_kmsg_escaped_parts_two_messages():
    log = parse("4,9127,7001250000,-;%s\\x0a%s" % (XID, XID.replace("4b", "4c")))
    assert [one.pci for one in log.events] == ["0000:4b:00", "0000:4c:00"]


def test_undecodable_bytes_and_nul_lose_no_event():
    log = parse(
        b"\xff\xfe[ 7001.25\x00] NVRM: X\x00id (PCI:0000:4b:00): 31, pid=8123, name=tr\xe9iner, Ch 0000000c\xff\n\x00" + XID.encode()
    )
    assert [(one.xid, one.pci, one.pid) for one in log.events] == [(31, "0000:4b:00", 8123)] * 2
    plain = parse(b"[ 7001.250000] NVRM: Xid (PCI:0000:4b:00): 31, pid=8123, name=tr\xe9iner, Ch 0000000c\xff\n")
    assert [(one.xid, one.pid, one.name) for one in plain.events] == [(31, 8123, "tr\ufffdiner")]


def test_indented_lines_of_one_message_have_its_stamp():
    log = parse("[ 7001.250000] NVRM: Xid (PCI:0000:4b:00): 120, GSP task exception\n               " + XID)
    assert [one.origin.uptime_seconds for one in log.events] == [7001.25, 7001.25]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "hello",
        "<html><body><p>404</p></body></html>",
        '{"gpus": [{"id": 0}]}',
        "The kernel: a short story\nxid=0x79 is an id",
        "-- No entries --",
    ],
    ids=["empty", "blank lines", "a word", "HTML", "JSON of another tool", "prose", "empty journal"],
)
def test_text_that_is_no_kernel_log(text):
    log = parse(text)
    assert log.kernel_lines == 0
    assert not any((log.events, log.sxids, log.driver_faults, log.aer, log.oom, log.storage, log.other, log.unrecognised))


QUIET = "usb 1-4: new high-speed USB device number 5 using xhci_hcd"


@pytest.mark.parametrize("name", sorted(set(ENVELOPES) - {"agent", "health check", "container log", "unknown month"}))
def test_quiet_line_is_known_for_a_kernel_line(name):
    log = parse(ENVELOPES[name](QUIET))
    assert log.kernel_lines >= 1
    assert log.lines == len(ENVELOPES[name](QUIET).rstrip("\n").split("\n"))


def test_first_and_last_time_are_those_of_the_log_not_of_its_events():
    log = parse("Mar 01 00:00:00 gx7 kernel: %s\nMar 07 09:05:01 gx7 kernel: %s\nMar 09 10:00:00 gx7 kernel: %s" % (QUIET, XID, QUIET))
    assert (log.first_time, log.last_time) == ("2026-03-01T00:00:00", "2026-03-09T10:00:00")


@pytest.mark.parametrize(
    ("text", "level"),
    [("4", "warn"), (3, "err"), ("warning", "warn"), ("ERROR", "err"), ("12", "warn"), ("nonsense", None), (None, None), ("", None)],
)
def test_level_words_and_numbers(text, level):
    assert log_envelope.level_of(text) == level
