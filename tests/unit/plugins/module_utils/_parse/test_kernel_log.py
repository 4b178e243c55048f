# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import collections
import json
import random
import time
import tracemalloc
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import kernel_log
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import KernelLog
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import (
    BOOT,
    ENVELOPES,
    REFERENCE,
    journal,
    parse,
    sifted,
)
from hypothesis import given, settings
from hypothesis import strategies as st

FAMILIES = ("events", "sxids", "driver_faults", "aer", "oom", "storage", "other", "unrecognised", "affected", "gpu_uuids")

# One message of each kind of record, and context that changes what it means.
MESSAGES = (
    "NVRM: Xid (PCI:0000:4b:00): 31, pid=8123, name=trainer, Ch 0000000c, intr 00000000. MMU Fault: ENGINE CE3 HUBCLIENT_CE1",
    "NVRM: Xid (PCI:0000:4c:00 GPU-I:03): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No",
    "NVRM: Xid (PCI:0000:4b:00): 79, pid=0, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:4b:00): 1079",
    "NVRM: GPU at PCI:0000:4b:00: GPU-0a1b2c3d-0000-1111-2222-333344445555",
    "NVRM: GPU 0000:4b:00.0: GPU has fallen off the bus.",
    "NVRM: The NVIDIA GPU 0000:9a:00.0",
    "NVRM: (PCI ID: 10de:2684) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
    "NVRM: GPU 0000:9a:00.0: RmInitAdapter failed! (0x22:0x56:1459)",
    "NVRM: GPU 0000:9a:00.0: rm_init_adapter failed, device minor number 3",
    "nvidia: probe of 0000:9a:00.0 failed with error -1",
    "nvidia-nvswitch2: SXid (PCI:0000:c7:00.0): 22013, Non-fatal, Link 11 Minion Link DLREQ interrupt",
    "nvidia-nvswitch2: SXid (PCI:0000:c7:00.0): 22013, Severity 0 Engine instance 11 Sub-engine instance 00",
    "pcieport 0000:60:03.1: AER: Correctable error message received from 0000:61:00.0",
    "nvidia 0000:61:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
    "nvidia 0000:61:00.0:    [ 0] RxErr                  (First)",
    "nvidia 0000:61:00.0: AER: can't recover (no error_detected callback)",
    "pcieport 0000:60:03.1: DPC: containment event, status:0x1f01 source:0x0000",
    "pcieport 0000:60:03.1: pciehp: Slot(4): Link Down",
    "{3}[Hardware Error]: event severity: fatal",
    "{3}[Hardware Error]:   device_id: 0000:60:03.1",
    "dataloader invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=trainer,pid=812,uid=1001",
    "Out of memory: Killed process 812 (trainer) total-vm:91kB, anon-rss:80kB",
    "Out of memory: Kill process 44 (R) score 31 or sacrifice child",
    "Killed process 44 (R) total-vm:38kB, anon-rss:10kB",
    "nvme nvme3: I/O 12 QID 4 timeout, aborting",
    "nvme3n1: I/O Cmd(0x2) @ LBA 256, 32 blocks, I/O Error (sct 0x3 / sc 0x71)",
    "I/O error, dev nvme3n1, sector 2048 op 0x0:(READ) flags 0x0",
    "Buffer I/O error on dev nvme3n1, logical block 256, async page read",
    "nvme3n1: detected capacity change from 3750748848 to 0",
    "EXT4-fs error (device md7): ext4_find_entry:1463: inode #2: comm ls",
    "XFS (nvme3n1p1): Log I/O Error Detected.  Shutting down filesystem",
    "BTRFS info (device sdc1: state EA): forced readonly",
    "md/raid1:md7: Disk failure on nvme3n1p3, disabling device.",
    "Aborting journal on device md7-8.",
    "trainer[8123]: segfault at 10 ip 0 sp 0 error 4 in libnccl.so.2.21.5[7f+1]",
    "traps: trainer[8123] general protection fault ip:7f sp:7f error:0 in libcuda.so.570[7f+1]",
    "irq 47: nobody cared",
    "print_req_error: 4 callbacks suppressed",
    "message repeated 5 times: [ NVRM: Xid (PCI:0000:4b:00): 43, pid=8123, name=trainer, Ch 0000000c]",
)
NOISE = (
    "usb 1-4: new high-speed USB device number 5 using xhci_hcd",
    'audit: type=1400 audit(1772870701.250:77): apparmor="ALLOWED" operation="open" pid=4242 comm="cron"',
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "[ 4021]     0   4022  3226957  2875051    5692        0             0 trainer",
    "  indented words without a meaning",
    "nvidia 0000:61:00.0:    [ 7] BadDLLP",
    "pcieport 0000:60:03.1:   device [8086:6f08] error status/mask=00001000/00002000",
    "",
)


def records(log: KernelLog) -> t.Dict[str, t.Any]:
    return {family: getattr(log, family) for family in FAMILIES}


def test_needles_are_plain_and_few():
    assert len(set(kernel_log.NEEDLES)) == len(kernel_log.NEEDLES) <= 50
    assert all(needle.isascii() and b"\n" not in needle and len(needle) >= 3 for needle in kernel_log.NEEDLES)
    assert kernel_log.JSON_BYTES_NEEDLE in kernel_log.NEEDLES
    assert kernel_log.JSON_NULL_NEEDLE in kernel_log.NEEDLES


@pytest.mark.parametrize("line", [line for line in NOISE if not line.startswith(("nvidia", "pcieport"))])
def test_needles_are_rare_on_ordinary_lines(line):
    assert not any(needle.decode() in line for needle in kernel_log.NEEDLES)


@pytest.mark.parametrize("message", MESSAGES)
def test_each_message_is_kept_by_the_filter_on_its_own_or_behind_another(message):
    behind = message.startswith("nvidia 0000:61:00.0:    [")
    assert behind or any(needle.decode() in message for needle in kernel_log.NEEDLES)


TEXT_ENVELOPES = (
    "bare",
    "dmesg",
    "dmesg -T",
    "kmsg",
    "journal short",
    "journal short-iso-precise",
    "journal json",
    "journal json, bytes",
    "journal export",
    "rsyslog",
    "RFC 5424",
    "Talos",
)
MARKERS = (
    "-- Boot %s --" % BOOT,
    "-- Reboot --",
    "[    0.000000] Linux version 6.8.0-60 (build)",
    "Mar  7 09:05:02 gx7 last message repeated 3 times",
)


@settings(max_examples=120, deadline=None)
@given(
    envelope=st.sampled_from(TEXT_ENVELOPES),
    parts=st.lists(
        st.one_of(
            st.sampled_from(MESSAGES).map(lambda message: (message, True)),
            st.sampled_from(NOISE).map(lambda line: (line, True)),
            st.sampled_from(MARKERS).map(lambda line: (line, False)),
            st.tuples(st.sampled_from(NOISE[:4]), st.integers(25, 45)).map(lambda pair: ("\n".join([pair[0]] * pair[1]), None)),
        ),
        max_size=25,
    ),
)
def test_sifted_log_says_the_same_as_the_whole(envelope, parts):
    lines: t.List[str] = []
    for text, wrapped in parts:
        if wrapped is None:
            lines += [ENVELOPES[envelope](line) for line in text.split("\n")]
        else:
            lines.append(ENVELOPES[envelope](text) if wrapped else text)
    whole = "\n".join(lines).encode()
    assert records(kernel_log.parse_lines(sifted(whole), REFERENCE)) == records(parse(whole))


UPTIMES = (3.2, 40.5, 899.1, 5000.25, 900000.5)
DATES = ("Jan  3", "Mar  7", "Jul  1", "Dec 30")


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 30))
def test_sifted_log_of_many_boots_years_and_machines_says_the_same_as_the_whole(seed):
    dice = random.Random(seed)
    lines: t.List[str] = []
    stamped = dice.choice((True, False))
    for _part in range(dice.randint(1, 25)):
        if dice.random() < 0.1:
            lines.append(dice.choice(MARKERS))
            continue
        message = dice.choice(MESSAGES) if dice.random() < 0.6 else dice.choice(NOISE)
        repeats = dice.randint(28, 40) if message in NOISE and dice.random() < 0.3 else 1
        for _line in range(repeats):
            head = "%s 10:00:00 %s kernel: " % (dice.choice(DATES), dice.choice(("gx1", "gx2"))) if stamped else ""
            lines.append("%s[%12.6f] %s" % (head, dice.choice(UPTIMES), message))
    whole = "\n".join(lines).encode()
    assert records(kernel_log.parse_lines(sifted(whole), REFERENCE)) == records(parse(whole))


PIECES = st.one_of(
    st.text(max_size=60),
    st.sampled_from(MESSAGES),
    st.sampled_from(MESSAGES).flatmap(lambda message: st.integers(0, len(message)).map(lambda end: message[:end])),
    st.sampled_from(sorted(ENVELOPES)).flatmap(lambda name: st.sampled_from(MESSAGES).map(ENVELOPES[name])),
    st.sampled_from(
        ["\n", "\r", "\0", "\x1b[31m", '"', "'", "[", "]", "(", ")", "{", "}", "Xid (", "NVRM: ", "#012", "\\n", "-- Boot ", "MESSAGE\n"]
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_no_text_raises(text):
    log = parse(text)
    assert log.lines == len(text.split("\n")) - (text.endswith("\n") or not text)
    json.dumps([vars(one)["detail"] for one in log.events])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.binary(max_size=60), PIECES.map(lambda text: text.encode("utf-8", "surrogatepass"))), max_size=12).map(b"".join)
)
def test_no_bytes_raise(text):
    assert parse(text).lines == len(text.split(b"\n")) - (text.endswith(b"\n") or not text)


XIDS = st.builds(
    lambda number, domain, bus, device, process, text: (
        number,
        "%04x:%02x:%02x" % (domain, bus, device),
        "NVRM: Xid (PCI:%04x:%02x:%02x): %d%s%s" % (domain, bus, device, number, process, text),
    ),
    st.integers(1, 255),
    st.sampled_from([0, 0, 2, 0xD, 0x10000]),
    st.integers(0, 255),
    st.integers(0, 31),
    st.sampled_from(["", ", pid=4", ", pid='<unknown>', name=<unknown>", ", pid=77, name=nvc:[driver]", ", name=kwin"]),
    st.sampled_from(["", ", Ch 0000000c", ", GPU has fallen off the bus.", ", 32260b5e 000154b0", ", text that no driver prints"]),
)
# Behind an event only what a number cannot be part of.
BEHIND = st.text(st.characters(blacklist_characters="\r\n\0#\\", blacklist_categories=("Cs",)), max_size=20).map(lambda text: " " + text)
BEFORE = st.text(st.characters(blacklist_characters="\r\n#\\[{\"'`", blacklist_categories=("Cs", "Cc")), max_size=20).map(
    lambda text: text + " "
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(XIDS, st.sampled_from(sorted(ENVELOPES)), BEFORE, BEHIND, st.sampled_from(NOISE)), min_size=1, max_size=6))
def test_no_event_is_lost_in_any_envelope_among_noise(items):
    expected: t.Counter[t.Tuple[int, str]] = collections.Counter()
    text = ""
    for (number, pci, message), envelope, before, behind, noise in items:
        expected[number, pci] += 1
        text += "%s\n%s\n" % (ENVELOPES[envelope](before + message + behind), noise)
    found: t.Counter[t.Tuple[int, t.Optional[str]]] = collections.Counter()
    for event in parse(text.encode("utf-8")).events:
        found[event.xid, event.pci] += event.count
    assert found == expected


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(BEFORE, XIDS, BEHIND), min_size=1, max_size=5), st.sampled_from(sorted(ENVELOPES)))
def test_no_event_of_a_line_is_lost(items, envelope):
    expected = collections.Counter((number, pci) for dummy, (number, pci, dummy), dummy in items)
    found: t.Counter[t.Tuple[int, t.Optional[str]]] = collections.Counter()
    for event in parse(ENVELOPES[envelope]("".join(before + message + behind for before, (dummy, dummy, message), behind in items))).events:
        found[event.xid, event.pci] += event.count
    assert found == expected


def test_counts_of_a_hundred_thousand_lines():
    dice = random.Random(7)
    expected: t.Counter[t.Tuple[int, str]] = collections.Counter()

    def lines() -> t.Iterator[bytes]:
        for number in range(100000):
            head = "Mar %2d %02d:%02d:%02d gx7 kernel: [%d.250000] " % (
                number // 50000 + 1,
                number // 3600 % 24,
                number // 60 % 60,
                number % 60,
                number,
            )
            if dice.random() < 0.1:
                xid, bus = dice.choice((13, 31, 43, 45, 63, 94)), dice.choice((0x1B, 0x43, 0x52))
                expected[xid, "0000:%02x:00" % bus] += 1
                yield (head + "NVRM: Xid (PCI:0000:%02x:00): %d, pid=8, name=trainer, Ch 0000000c\n" % (bus, xid)).encode()
            else:
                yield (head + NOISE[number % 4] + "\n").encode()

    began = time.process_time()
    log = kernel_log.parse_lines(lines(), REFERENCE)
    seconds = time.process_time() - began
    found: t.Counter[t.Tuple[int, t.Optional[str]]] = collections.Counter()
    for event in log.events:
        found[event.xid, event.pci] += event.count
    assert found == expected
    assert (log.lines, log.kernel_lines) == (100000, 100000)
    # Some 4 s on a busy machine of 2020; a quadratic step would take minutes.
    assert seconds < 60


def test_memory_does_not_grow_with_repeated_lines():
    def lines(number: int) -> t.Iterator[str]:
        for at in range(number):
            yield "[%d.000001] NVRM: Xid (PCI:0000:4b:00): 31, pid=8, name=a, Ch 0000000c" % at
            yield "[%d.000002] NVRM: Xid (PCI:0000:4b:00): 43, pid=8, name=a, Ch 0000000c" % at

    tracemalloc.start()
    log = kernel_log.parse_lines(lines(1500))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(one.xid, one.count) for one in log.events] == [(31, 1500), (43, 1500)]
    assert log.events[0].detail["last_uptime_seconds"] == 1499.000001
    # Of each line some 100 bytes must be gone again.
    assert peak < 600_000


LONG = {
    "one letter": "x" * 1000000,
    "brackets": "NVRM: Xid (PCI:0000:4b:00): 79, x" + "(" * 100000,
    "beginnings of events": "Xid (" * 100000,
    "beginnings with an address": "NVRM: Xid (PCI:0000:" * 50000,
    "digits": "NVRM: Xid (PCI:0000:4b:00): " + "1" * 500000,
    "hex digits behind a needle": "AER: " + "a" * 1000000,
    "addresses": "0000:60:03.1: AER: " * 30000,
    "segfaults": "a[1]: segfault at 10 " * 20000,
    "kills": "Killed process 1 (" * 20000,
    "block errors": "a error, dev sda, sector 1 " * 20000,
    "backslashes": "NVRM: Xid (PCI:0000:4b:00): 79" + "\\n" * 200000,
    "escaped newlines": "NVRM: x#012" * 5000,
    "carriage returns": "NVRM: x\r" * 5000,
    "deep JSON": '{"MESSAGE":' + "[" * 200000,
    "long JSON number": '{"MESSAGE":' + "9" * 500000 + "}",
    "quoted JSON": '{"textPayload":"' + "NVRM: Xid (" * 20000 + '\\n"}',
    "escaped ends in JSON": '{"textPayload":"NVRM: Xid (PCI:0000:4b:00): 79' + "\\\\n" * 100000 + 'x"}',
    "list items": '"MESSAGE" : [\n' + "1" * 300000 + "x\n",
    "structured data": "<4>1 2026-03-07T08:05:01Z gx7 kernel - - " + '[a b="' * 30000 + " NVRM: ",
    "escape sequences": "\x1b[" * 100000 + "NVRM: Xid (PCI:0000:4b:00): 79",
    "spaces": " " * 500000 + "NVRM: Xid",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_line_takes_linear_time(text):
    began = time.process_time()
    parse(text)
    # Well under a second each; a quadratic pattern would take minutes.
    assert time.process_time() - began < 20


def test_event_in_a_line_of_five_megabytes():
    text = "x" * 2500000 + " [ 7001.250000] NVRM: Xid (PCI:0000:4b:00): 79, pid=0, GPU has fallen off the bus. " + "y " * 1250000
    assert [(one.xid, one.pci) for one in parse(text.encode()).events] == [(79, "0000:4b:00")]


def test_lines_come_with_or_without_newline_and_of_either_type():
    line = "NVRM: Xid (PCI:0000:4b:00): 31, pid=8, name=a, Ch 0000000c"
    mixed: t.List[t.Union[str, bytes]] = [line, line + "\n", line.encode(), line.encode() + b"\n", line + "\n" + line]
    log = kernel_log.parse_lines(mixed)
    assert (log.lines, [one.count for one in log.events]) == (6, [6])


def test_whole_text_and_lines_read_alike():
    text = "\n".join(ENVELOPES[name](message) for name in ("rsyslog", "journal json") for message in MESSAGES)
    assert parse(text) == kernel_log.parse_lines(text.split("\n"), REFERENCE) == parse(text.encode())


def test_journal_sifted_by_the_message_keeps_what_cannot_be_searched():
    text = "\n".join([journal("quiet"), journal(list(b"NVRM: Xid (PCI:0000:4b:00): 79\n")), journal(None), journal("quiet")]).encode()
    log = kernel_log.parse_lines(sifted(text), REFERENCE)
    assert ([one.xid for one in log.events], log.unreadable_records) == ([79], 1)
