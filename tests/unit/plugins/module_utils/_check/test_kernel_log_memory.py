# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one run leaves for the next: nothing open is forgotten, nothing is seen twice, and two runs say what one would have said."""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import kernel_log, kernel_log_memory
from ansible_collections.kentino.gpu.plugins.module_utils._parse import kernel_log as parser
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import KernelLog, Origin, XidEvent
from ansible_collections.kentino.gpu.plugins.module_utils._probe import command, journal
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import nodes
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LOG = ("kernel_log",)
LOST = "NVRM: Xid (PCI:{pci}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
UNCONTAINED = "NVRM: Xid (PCI:{pci}): 95, pid=4711, name=train, Uncontained: LTC TAG (0x3,0x0). RST: Yes, D-RST: No"
NEEDS_RESET = "NVRM: Xid (PCI:{pci}): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
RECOVERED = "NVRM: Xid (PCI:{pci}): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
HIGH_RATE = "NVRM: Xid (PCI:{pci}): 92, pid='<unknown>', name=<unknown>, High single-bit ECC error rate"
APPLICATION = (
    "NVRM: Xid (PCI:{pci}): 31, pid={pid}, name=train, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f_10000000"
)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path, "h100x8")


def test_quiet_second_run_of_a_healthy_node_passes_on_evidence(node):
    first = node.check(LOG, remember=True)
    second = node.check(LOG, remember=True)
    assert (first["verdict"], second["verdict"]) == ("pass", "pass")
    assert nodes.evidence(second, "kernel_log") == "0 new kernel log lines read from journal"
    assert second["findings"] == []


def test_fault_stays_although_its_line_is_not_read_again(node):
    node.say(LOST.format(pci=node.pci(1)))
    first = node.check(LOG, remember=True)
    second = node.check(LOG, remember=True)
    assert "earlier run" not in nodes.finding(first, "xid.79")["message"]
    facts = second["facts"]["kernel_log"]
    assert (facts["records"], facts["events"], facts["totals"]["events"]) == (0, [], 0)
    again = nodes.finding(second, "xid.79")
    assert (second["verdict"], second["action"], again["subject"]["pci"]) == ("fail", "reseat", node.pci(1))
    assert again["message"].endswith("(seen in an earlier run, no reboot or recovery since)")
    assert again["evidence"] == nodes.finding(first, "xid.79")["evidence"]
    assert node.check(LOG, remember=True)["findings"] == second["findings"]  # the words are not added once more


def test_event_between_two_runs_is_seen_exactly_once(node):
    seen = [node.check(LOG, remember=True)["facts"]["kernel_log"]["events"]]
    node.say("usb 1-1: new high-speed USB device", APPLICATION.format(pci=node.pci(2), pid=77))
    for _run in range(2):
        seen.append(node.check(LOG, remember=True)["facts"]["kernel_log"]["events"])
    assert [[event["xid"] for event in events] for events in seen] == [[], [31], []]


def test_new_event_on_one_gpu_does_not_hide_the_fault_of_another(node):
    node.say(LOST.format(pci=node.pci(1)))
    node.check(LOG, remember=True)
    node.say(LOST.format(pci=node.pci(6)))
    report = node.check(LOG, remember=True)
    lost = {item["subject"]["pci"]: "earlier run" in item["message"] for item in report["findings"] if item["code"] == "xid.79"}
    assert lost == {node.pci(1): True, node.pci(6): False}


def test_two_disks_that_die_one_run_after_the_other_are_two_faults(node):
    for disk in ("nvme0", "nvme1"):
        node.say("nvme %s: Removing after probe failure status: -19" % disk, priority=3)
        report = node.check(LOG, remember=True)
    assert {item["subject"]["name"] for item in report["findings"] if item["subject"]["kind"] == "disk"} == {"nvme0", "nvme1"}


def test_recovery_that_the_driver_logs_later_ends_a_fault_that_a_reset_mends(node):
    node.say(UNCONTAINED.format(pci=node.pci(1)), NEEDS_RESET.format(pci=node.pci(1)))
    assert node.check(LOG, remember=True)["action"] == "reset_gpu"
    assert node.check(LOG, remember=True)["verdict"] == "fail"
    node.say(RECOVERED.format(pci=node.pci(1)))
    assert node.check(LOG, remember=True)["verdict"] == "pass"
    assert node.check(LOG, remember=True)["verdict"] == "pass"


def test_recovery_of_another_gpu_ends_nothing(node):
    node.say(UNCONTAINED.format(pci=node.pci(1)))
    node.check(LOG, remember=True)
    node.say(RECOVERED.format(pci=node.pci(2)))
    assert node.check(LOG, remember=True)["verdict"] == "fail"


def test_warning_stays_for_as_long_as_warnings_count(node):
    node.say(HIGH_RATE.format(pci=node.pci(4)))
    verdicts = [node.check(LOG, remember=True, log={"policy": {"warning_hours": hours}})["verdict"] for hours in (24, 24, 0)]
    assert verdicts == ["warn", "warn", "pass"]


def test_fault_of_an_earlier_run_is_judged_by_the_policy_of_today(node):
    node.say(LOST.format(pci=node.pci(1)))
    node.check(LOG, remember=True)
    report = node.check(LOG, remember=True, log={"policy": {"xid_policy": {79: {"severity": "info", "action": "none"}}}})
    assert report["verdict"] == "pass"


def test_reboot_ends_what_was_open(node):
    node.say(LOST.format(pci=node.pci(1)))
    assert node.check(LOG, remember=True)["verdict"] == "fail"
    node.reboot()
    report = node.check(LOG, remember=True)
    assert (report["verdict"], report["facts"]["kernel_log"]["events"]) == ("pass", [])
    node.say(LOST.format(pci=node.pci(1)))
    assert node.check(LOG, remember=True)["verdict"] == "fail"


def test_all_boots_are_read_and_only_the_running_one_fails(tmp_path):
    node = Node(tmp_path, "h100x8+old_boot_xid79")
    options = {"log": {"boot": "all"}, "remember": True}
    for records, events in ((450, 1), (0, 0)):
        report = node.check(LOG, **options)
        facts = report["facts"]["kernel_log"]
        assert facts["records"] >= records
        assert (report["verdict"], len(facts["events"])) == ("pass", events)
        assert "before the last boot" in nodes.finding(report, "xid.79")["message"]
    node.say(LOST.format(pci=node.pci(2)))
    report = node.check(LOG, **options)
    assert [item["subject"]["pci"] for item in report["findings"] if item["verdict"] == "fail"] == [node.pci(2)]


def test_check_mode_reads_the_memory_and_leaves_it_as_it_is(node):
    node.say(LOST.format(pci=node.pci(1)))
    node.check(LOG, remember=True)
    before = node.state.read_bytes()
    node.say(LOST.format(pci=node.pci(2)))
    for _run in range(2):
        report = node.check(LOG, remember=True, save_state=False)
        assert [event["pci"] for event in report["facts"]["kernel_log"]["events"]] == [node.pci(2)]
        assert "earlier run" in nodes.finding(report, "xid.79")["message"] + report["findings"][1]["message"]
    assert node.state.read_bytes() == before


def test_check_mode_of_a_first_run_leaves_nothing(node):
    node.check(LOG, remember=True, save_state=False)
    assert not node.state.parent.exists()


def test_place_that_the_journal_no_longer_has_is_a_gap_and_what_was_seen_before_it_counts(node):
    node.say(LOST.format(pci=node.pci(1)))
    node.check(LOG, remember=True)
    node.say("usb 1-1: new high-speed USB device")
    node.forget(node.lines() - 1)
    report = node.check(LOG, remember=True)
    assert "kernel_log.gap" in nodes.codes(report)
    assert "earlier run" in nodes.finding(report, "xid.79")["message"]
    assert report["facts"]["kernel_log"]["lower_bounds"]


def test_journal_read_again_from_its_beginning_doubles_nothing(node):
    node.say(LOST.format(pci=node.pci(1)), APPLICATION.format(pci=node.pci(2), pid=5))
    node.check(LOG, remember=True)
    node.forget(3)  # the rest is there, under other cursors
    report = node.check(LOG, remember=True)
    assert [nodes.finding(report, code)["count"] for code in ("xid.79", "xid.31")] == [1, 1]
    assert "earlier run" not in nodes.finding(report, "xid.79")["message"]


def test_ring_buffer_takes_over_from_a_journal_that_is_gone_and_back_again(node):
    node.say(LOST.format(pci=node.pci(1)))
    node.check(LOG, remember=True)
    tool = node.folder / "bin" / "journalctl"
    tool.rename(tool.with_name("away"))
    node.environment = {"PATH": str(tool.parent)}
    node.say(LOST.format(pci=node.pci(2)))
    counts = []
    for source in ("kmsg", "kmsg", "journal"):
        if source == "journal":
            tool.with_name("away").rename(tool)
        report = node.check(LOG, remember=True)
        assert report["facts"]["kernel_log"]["source"] == [source]
        counts.append([item["count"] for item in report["findings"] if item["code"] == "xid.79"])
        assert report["verdict"] == "fail"
    assert counts == [[1, 1]] * 3


def test_ring_buffer_is_read_on_from_where_the_last_run_ended(node):
    options = {"log": {"source": "kmsg"}}
    node.say(LOST.format(pci=node.pci(1)))
    node.check(LOG, remember=True, **options)
    report = node.check(LOG, remember=True, **options)
    assert nodes.evidence(report, "kernel_log") == "0 new kernel log lines read from kmsg"
    assert report["verdict"] == "fail"
    node.root.joinpath("dev/kmsg").write_text("6,9000,999999999999,-;usb 1-1: new high-speed USB device\n")
    report = node.check(LOG, remember=True, **options)
    assert "kernel_log.gap" in nodes.codes(report)
    assert report["verdict"] == "fail"


def test_file_of_another_machine_is_judged_without_this_node_s_memory(node, tmp_path):
    node.say(LOST.format(pci=node.pci(1)))
    node.check(LOG, remember=True)
    before = node.state.read_bytes()
    log = tmp_path / "customer.log"
    log.write_text("[   12.400000] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n" * 20)
    report = node.check(LOG, remember=True, log={"source": "file", "paths": [str(log)]})
    assert (report["verdict"], report["findings"]) == ("pass", [])
    assert nodes.evidence(report, "kernel_log") == "20 kernel log lines read from %s" % log
    assert node.state.read_bytes() == before


def test_lost_gpu_is_named_by_what_the_boot_s_log_said_before(node):
    node.say("NVRM: GPU at PCI:%s: GPU-11111111-2222-3333-4444-555555555555" % node.pci(1))
    node.check(LOG, remember=True)
    node.say(LOST.format(pci=node.pci(1)))
    report = node.check(LOG, remember=True)
    assert nodes.finding(report, "xid.79")["subject"]["uuid"] == "GPU-11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", "cannot be read", id="empty"),
        pytest.param("{", "cannot be read", id="cut"),
        pytest.param("\x00\xff", "cannot be read", id="no text"),
        pytest.param("[" * 100000, "cannot be read", id="nested without end"),
        pytest.param('"text"', "no state", id="another kind of JSON"),
        pytest.param('{"kernel_log": {"cursor": 7}}', "no state", id="before it said its format"),
        pytest.param('{"format": 99, "sum": "", "state": {}}', "another version", id="of a later version"),
        pytest.param('{"format": 1, "sum": "", "state": {"kernel_log": 1}}', "changed or damaged", id="edited"),
    ],
)
def test_state_that_cannot_be_trusted_is_told_not_used_and_replaced(node, content, words):
    node.say(LOST.format(pci=node.pci(1)))
    node.state.parent.mkdir(parents=True)
    node.state.write_text(content, errors="surrogateescape")
    report = node.check(LOG, remember=True)
    assert words in nodes.finding(report, "kernel_log.state")["message"]
    assert (report["verdict"], report["action"]) == ("fail", "reseat")
    assert "kernel_log.state" not in nodes.codes(node.check(LOG, remember=True))


@pytest.mark.parametrize("byte", range(0, 3000, 577))
def test_one_damaged_byte_of_the_state_is_noticed(node, byte):
    node.say(LOST.format(pci=node.pci(1)))
    node.check(LOG, remember=True)
    stored = bytearray(node.state.read_bytes())
    stored[byte % len(stored)] ^= 0x01
    node.state.write_bytes(stored)
    report = node.check(LOG, remember=True)
    assert report["verdict"] == "fail"
    assert "kernel_log.state" in nodes.codes(report)


def test_state_that_cannot_be_kept_is_told_and_changes_no_verdict(node):
    (node.root / "var").write_text("a file where a folder should be")
    report = node.check(remember=True)
    assert report["verdict"] == "pass"
    assert "cannot be written" in nodes.finding(report, "kernel_log.state")["message"]
    assert "cannot be written" in nodes.finding(report, "gpu.state")["message"]


def test_without_a_boot_id_nothing_is_remembered(node):
    node.say(LOST.format(pci=node.pci(1)))
    (node.root / "proc/sys/kernel/random/boot_id").unlink()
    for _run in range(2):
        report = node.check(LOG, remember=True)
        assert report["verdict"] == "fail"
        assert report["facts"]["kernel_log"]["records"] > 100


# The same in one process: a journal made of what the test says, with its own clock.

PCI = ("0000:18:00", "0000:2a:00", "0000:3a:00")
NOISE = ("usb 1-1: new high-speed USB device number 2 using xhci_hcd",)
GROUPS: t.Tuple[t.Tuple[str, ...], ...] = (
    NOISE,
    *((LOST.format(pci=pci), "NVRM: GPU %s.0: GPU has fallen off the bus." % pci) for pci in PCI),
    *((UNCONTAINED.format(pci=pci), NEEDS_RESET.format(pci=pci)) for pci in PCI[:2]),
    *((RECOVERED.format(pci=pci),) for pci in PCI),
    *((APPLICATION.format(pci=PCI[0], pid=pid),) for pid in (10, 20, 30, 40, 50)),
    (HIGH_RATE.format(pci=PCI[1]),),
    ("NVRM: GPU 0000:2a:00.0: RmInitAdapter failed! (0x26:0xffff:1556)",),
    ("NVRM: Xid (PCI:0000:2a:00): 63, pid=9, name=train, Row Remapper: New row (0x00000009d24c1a80) marked for remapping, reset gpu",),
    ("NVRM: Xid (PCI:0000:2a:00): 45, pid=9, name=train, Ch 00000008",),
    ("NVRM: Xid (PCI:0000:3a:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 3(0x0, 0x0, 0x10000, 0x0)",),
    ("NVRM: Xid (PCI:0000:3a:00) in words that no driver prints yet",),
    ("nvme nvme1: Removing after probe failure status: -19",),
    ("blk_update_request: I/O error, dev nvme0n1, sector 7034 op 0x1:(WRITE) flags 0x100000 phys_seg 1 prio class 2",),
    ("Out of memory: Killed process 311 (train) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB",),
    (
        "nvidia-nvswitch1: SXid (PCI:0000:08:00.0): 20034, Fatal, Link 32 LTSSM Fault Up",
        "nvidia-nvswitch1: SXid (PCI:0000:08:00.0): 20034, Severity 1 Engine instance 32 Sub-engine instance 00",
    ),
)
_BEGIN_USEC = 1_790_000_000_000_000


class Journal:
    """Records with times; answers in journalctl's place."""

    def __init__(self) -> None:
        self.records: t.List[bytes] = []
        self.usec = _BEGIN_USEC

    def say(self, texts: t.Iterable[str], seconds: float) -> None:
        self.usec += int(seconds * 1e6)
        for text in texts:
            self.usec += 11
            number, since = len(self.records), self.usec - _BEGIN_USEC
            record = {
                "__CURSOR": "s=1;i=%x;b=2;m=%x;t=%x;x=%x" % (number, since, self.usec, number),
                "__REALTIME_TIMESTAMP": str(self.usec),
                "_SOURCE_MONOTONIC_TIMESTAMP": str(since),
                "_BOOT_ID": "0" * 32,
                "_TRANSPORT": "kernel",
                "SYSLOG_IDENTIFIER": "kernel",
                "PRIORITY": "4",
                "MESSAGE": text,
            }
            self.records.append(json.dumps(record, separators=(",", ":")).encode())

    def run(self, argv: t.Sequence[str], deadline: float, on_stdout: t.Any, max_bytes: int) -> command.Completed:
        cursor = next((word.split("=", 1)[1] for word in argv if word.startswith("--cursor=")), None)
        places = [json.loads(record)["__CURSOR"] for record in self.records]
        begin = places.index(cursor) if cursor in places else 0
        on_stdout(b"".join(record + b"\n" for record in self.records[begin:]))
        return command.Completed(tuple(argv), "ended", 0)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Judges a journal, with a memory or without."""
    boot_id = tmp_path / "proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("0" * 32)
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    numbers = itertools.count()

    def new_memory() -> str:
        return "/state-%d.json" % next(numbers)

    def answer(log: Journal, state_path: t.Optional[str] = None) -> t.Tuple[t.Any, t.Dict[str, t.Any]]:
        monkeypatch.setattr(journal.command, "run", log.run)
        monkeypatch.setattr(time, "time", lambda: log.usec / 1e6 + 1)
        return kernel_log.run(kernel_log.Options(source="journal", state_path=state_path))

    answer.new_memory = new_memory  # type: ignore[attr-defined]
    return answer


def conclusions(check: t.Any) -> t.Set[t.Tuple[t.Any, ...]]:
    return {(found.code, found.subject, found.verdict, found.action) for found in check.findings}


def incidents(facts: t.Mapping[str, t.Any]) -> t.List[t.Tuple[t.Any, ...]]:
    return [(one["pci"], one["root_xid"], one["verdict"], one["action"]) for one in facts["incidents"]]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    # Each but once: within one reading the parser makes one record of equal lines, which changes no more than its words.
    st.lists(
        st.tuples(st.sampled_from(GROUPS), st.sampled_from((0.0, 0.5, 30.0, 400.0, 5000.0)), st.booleans()),
        min_size=1,
        max_size=14,
        unique_by=lambda part: part[0],
    )
)
def test_many_runs_say_in_the_end_what_one_would_have_said(ask, story):
    log, state_path, seen = Journal(), ask.new_memory(), 0
    log.say(NOISE, 1)
    for texts, seconds, asked in story:
        log.say(texts, seconds)
        if asked:
            seen += sum(event["count"] for event in ask(log, state_path)[1]["events"])
    many, last_part = ask(log, state_path)
    once, whole = ask(log)
    assert conclusions(many) == conclusions(once)
    assert (many.verdict, many.action) == (once.verdict, once.action)
    assert incidents(last_part) == incidents(whole)
    assert seen + sum(event["count"] for event in last_part["events"]) == sum(event["count"] for event in whole["events"])


def test_application_fault_that_comes_back_run_after_run_points_to_the_card(ask):
    log, state_path = Journal(), ask.new_memory()
    verdicts = []
    for pid in range(5):
        log.say([APPLICATION.format(pci=PCI[0], pid=1000 + pid)], 3600)
        check, _facts = ask(log, state_path)
        verdicts.append(check.verdict)
    assert verdicts == ["pass"] * 4 + ["warn"]
    assert "hardware suspected" in check.findings[0].message


def test_log_gone_mad_is_remembered_by_its_most_telling_records(ask):
    log, state_path = Journal(), ask.new_memory()
    log.say([LOST.format(pci=PCI[2])], 10)
    for pid in range(3 * kernel_log_memory.MAX_RECORDS):
        log.say([APPLICATION.format(pci=PCI[0], pid=pid)], 1)
    ask(log, state_path)
    log.say(NOISE, 1)
    check, facts = ask(log, state_path)
    assert (check.verdict, facts["records"]) == ("fail", 1)
    assert check.findings[0].subject.pci == PCI[2]


def test_records_come_back_from_the_memory_as_they_were():
    lines = [text for group in GROUPS for text in group]
    lines += ["NVRM: Xid (PCI:0000:3a:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000082 0x00000040 0x1 0x2)"]
    lines += [
        "pcieport 0000:5c:01.0: AER: Correctable error message received from 0000:5c:01.0",
        "pcieport 0000:5c:01.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
        "pcieport 0000:5c:01.0:   device [8086:352a] error status/mask=00001000/00002000",
        "pcieport 0000:5c:01.0:    [12] Timeout               ",
    ]
    log = parser.parse("".join("[%5d.%06d] %s\n" % (second, second, line) for second, line in enumerate(lines)))
    assert all(getattr(log, name) for name in ("events", "sxids", "driver_faults", "aer", "oom", "storage", "unrecognised"))
    stored = json.loads(json.dumps(kernel_log_memory.Memory("b", "current", "journal", "c", log).as_dict()))
    back = kernel_log_memory.recall(stored, "b", "current")
    read = {"lines": 0, "kernel_lines": 0, "boots": 1}
    assert dataclasses.replace(log, **read) == dataclasses.replace(back.log, **read)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        7,
        {},
        {"boot_id": "b", "boot": "current"},
        {"boot_id": "b", "boot": "current", "source": "", "cursor": "", "log": {"events": 1}},
    ],
)
def test_memory_of_another_shape_is_none(stored):
    assert kernel_log_memory.recall(stored, "b", "current") == kernel_log_memory.Memory("b", "current")


def test_what_is_chosen_of_many_records_is_the_first_of_each_kind_and_the_newest():
    def event(xid: int, place: int) -> XidEvent:
        return XidEvent(xid, "0000:18:00", origin=Origin(seq=place))

    events = [event(79, 0), *(event(13, place) for place in range(1, 500))]
    kept = kernel_log_memory.telling(events, 10)
    assert [one.origin.seq for one in kept] == [0, 1, *range(492, 500)]
    assert kernel_log_memory.telling(events[:10], 10) == tuple(events[:10])


def test_earlier_part_of_a_log_ends_where_a_reading_begins():
    events = tuple(XidEvent(79, None, origin=Origin(uptime_seconds=uptime)) for uptime in (1.0, 2.0, 3.0, None))
    log = KernelLog(events=events, gpu_uuids={"0000:18:00": "GPU-1"}, unreadable_records=3)
    assert kernel_log_memory.before(log, 2.0).events == events[:1]
    assert kernel_log_memory.before(log, 2.0).unreadable_records == 0
    assert kernel_log_memory.before(log, None) == KernelLog(gpu_uuids=log.gpu_uuids)
