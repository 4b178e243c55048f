# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import kernel_log
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check
from ansible_collections.kentino.gpu.plugins.modules import kernel_log_info
from ansible_collections.kentino.gpu.tests.unit.plugins.modules.module_runs import documented, is_as_documented, run

LINES = "".join("[%12.6f] usb 1-1: new high-speed USB device number %d\n" % (second, second) for second in range(1, 30))
LOST = "[   40.000000] NVRM: Xid (PCI:0000:2a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


@pytest.fixture
def log(tmp_path):
    (tmp_path / "kern.log").write_text(LINES + LOST)
    return str(tmp_path / "kern.log")


@pytest.fixture
def asked(monkeypatch):
    """The options that reach the check; nothing is read."""
    seen = []

    def note(options):
        seen.append(options)
        return Check("kernel_log", "3 lines"), {"simulated": False}

    monkeypatch.setattr(kernel_log, "run", note)
    return seen


def test_bad_log_is_reported_and_fails_no_task(capsys, log):
    result = run(kernel_log_info, capsys, source="file", paths=[log])
    assert (result["verdict"], result["action"], result["changed"], "failed" in result) == ("fail", "reseat", False, False)
    assert [check["name"] for check in result["checks"]] == ["kernel_log"]
    assert result["facts"]["kernel_log"]["events"][0]["xid"] == 79
    is_as_documented(result, documented(kernel_log_info))


def test_defaults_are_those_of_the_check(capsys, asked):
    run(kernel_log_info, capsys)
    policy = {"xid_policy": {}, "warning_hours": 24, "power_domains": {}, "driver_version": None}
    assert asked == [kernel_log.Options(paths=[], policy=policy)]


@pytest.mark.parametrize(
    ("option", "value", "field"),
    [
        ("source", "kmsg", "source"),
        ("paths", ["/a", "/b"], "paths"),
        ("rotated", True, "rotated"),
        ("boot", "all", "boot"),
        ("since", "-2h", "since"),
        ("cursor", "s=1;i=2", "cursor"),
        ("state_path", "/var/lib/s.json", "state_path"),
        ("deadline_seconds", 3.5, "deadline_seconds"),
        ("xid_policy", {"63": {"severity": "info"}}, "policy"),
        ("warning_hours", 2, "policy"),
        ("power_domains", {"a": ["0000:2a:00"]}, "policy"),
        ("driver_version", "575.57.08", "policy"),
    ],
)
def test_option_reaches_the_check(capsys, asked, option, value, field):
    run(kernel_log_info, capsys, **{option: value})
    default = kernel_log.Options(paths=[])
    got = getattr(asked[0], field)
    assert (got[option] if field == "policy" else got) == value
    assert [name for name in vars(default) if name not in (field, "policy") and getattr(asked[0], name) != getattr(default, name)] == []


@pytest.mark.parametrize("check_mode", [False, True])
def test_only_a_real_run_leaves_a_memory(capsys, asked, check_mode):
    run(kernel_log_info, capsys, check_mode=check_mode, state_path="/s.json")
    assert asked[0].save_state is not check_mode


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"source": "file"}, "expected one path or pattern at least", id="file without a path"),
        pytest.param({"source": "syslog"}, "value of source must be one of: auto, journal, kmsg, file", id="unknown source"),
        pytest.param({"boot": "last"}, "value of boot must be one of: current, all", id="unknown boot"),
        pytest.param({"xid_policy": {"79": {"severity": "awful"}}}, "'awful'", id="unknown severity"),
        pytest.param({"xid_policy": {"lost": {"severity": "info"}}}, "lost", id="no number"),
        pytest.param({"warning_hours": -1}, "warning_hours is -1", id="negative age"),
        pytest.param({"deadline_seconds": 0}, "expected a number of seconds above 0", id="no time at all"),
        pytest.param({"deadline_seconds": "nan"}, "expected a number of seconds above 0", id="no number of seconds"),
        pytest.param({"power_domains": {"a": "0000:2a:00"}}, "power_domains.a", id="no list"),
        pytest.param({"kursor": "x"}, "Unsupported parameters", id="misspelt"),
    ],
)
def test_wrong_option_fails_the_task_with_a_sentence(capsys, options, words):
    result = run(kernel_log_info, capsys, **options)
    assert result["failed"]
    assert words in result["msg"]
    assert "Traceback" not in result["msg"]
    assert "verdict" not in result
