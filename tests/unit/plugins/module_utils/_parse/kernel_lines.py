# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel log lines in every envelope, for the tests of the kernel log's parser."""

from __future__ import annotations

import datetime
import json
import typing as t

from ansible_collections.kentino.gpu.plugins.module_utils._parse import kernel_log
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import KernelLog

REFERENCE = datetime.datetime(2026, 3, 14, 12)
BOOT = "5e1f0c3ad1b24d0f9f6a2b7c8d9e0a1b"
OTHER_BOOT = "c0ffee00d1b24d0f9f6a2b7c8d9e0a1b"


def journal(message: t.Any, **fields: t.Any) -> str:
    record = {"__REALTIME_TIMESTAMP": "1773489600000000", "_BOOT_ID": BOOT, "_TRANSPORT": "kernel", "PRIORITY": "4", "_HOSTNAME": "gx7"}
    record.update(SYSLOG_IDENTIFIER="kernel", MESSAGE=message)
    record.update(fields)
    return json.dumps(record, separators=(",", ":"))


def export(message: str) -> str:
    fields = ["__CURSOR=s=1;i=2", "__REALTIME_TIMESTAMP=1773489600000000", "_BOOT_ID=" + BOOT, "PRIORITY=4", "_TRANSPORT=kernel"]
    return "\n".join([*fields, "SYSLOG_IDENTIFIER=kernel", "MESSAGE=" + message, ""])


def pretty(message: str) -> str:
    fields = {
        "__CURSOR": "s=1;i=2",
        "__REALTIME_TIMESTAMP": "1773489600000000",
        "PRIORITY": "4",
        "_TRANSPORT": "kernel",
        "MESSAGE": message,
    }
    return "{\n%s\n}" % ",\n".join('\t"%s" : %s' % (key, json.dumps(value)) for key, value in fields.items())


def dmesg_json(message: str) -> str:
    record = '      {\n         "pri": 4,\n         "time":     7.250000,\n         "msg": %s\n      }' % json.dumps(message)
    return '{\n   "dmesg": [\n%s\n   ]\n}' % record


def cloud_logging(message: str) -> str:
    text = "[ 7001.250000] %s\\r\\n" % message
    return json.dumps({"insertId": "q1", "labels": {"is_text_escaped": "true"}, "textPayload": text, "timestamp": "2026-03-14T11:00:00Z"})


Envelope = t.Callable[[str], str]

# Each holds what real tools put around a kernel message; the last ones are tools that quote it.
ENVELOPES: t.Mapping[str, Envelope] = {
    "bare": lambda message: message,
    "dmesg": lambda message: "[ 7001.250000] " + message,
    "dmesg with caller": lambda message: "[ 7001.250000][  T311] " + message,
    "dmesg -T": lambda message: "[Sat Mar  7 09:05:01 2026] " + message,
    "dmesg -d": lambda message: "[  +0.000013] " + message,
    "dmesg -e": lambda message: "[Mar 7 09:05] " + message,
    "dmesg iso": lambda message: "2026-03-07T09:05:01,250113+01:00 " + message,
    "dmesg -x": lambda message: "kern  :warn  : [ 7001.250000] " + message,
    "dmesg -x iso": lambda message: "kern  :warn  : 2026-03-07T09:05:01,250113+01:00 " + message,
    "dmesg --color": lambda message: "\x1b[32m[ 7001.250000] \x1b[0m\x1b[33m" + message + "\x1b[0m",
    "dmesg --color without ESC": lambda message: "[32m[ 7001.250000] [0m[33m" + message + "[0m",
    "raw": lambda message: "<4>[ 7001.250000] " + message,
    "raw without stamp": lambda message: "<4>" + message,
    "kmsg": lambda message: "4,9127,7001250000,-;" + message,
    "kmsg with caller": lambda message: "4,9127,7001250000,-,caller=T311;" + message + "\n SUBSYSTEM=pci",
    "dmesg -J": dmesg_json,
    "journal short": lambda message: "Mar 07 09:05:01 gx7 kernel: " + message,
    "journal short-precise": lambda message: "Mar 07 09:05:01.250113 gx7 kernel: " + message,
    "journal short-iso, systemd 239": lambda message: "2026-03-07T09:05:01+0100 gx7 kernel: " + message,
    "journal short-iso-precise": lambda message: "2026-03-07T09:05:01.250113+01:00 gx7 kernel: " + message,
    "journal short-monotonic": lambda message: "[ 7001.250113] gx7 kernel: " + message,
    "journal short-full": lambda message: "Sat 2026-03-07 09:05:01 CET gx7 kernel: " + message,
    "journal short-unix": lambda message: "1772870701.250113 gx7 kernel: " + message,
    "journal json": journal,
    "journal json, bytes": lambda message: journal(list(message.encode())),
    "journal json, repeated field": lambda message: journal([message, "and another"]),
    "journal json-pretty": pretty,
    "journal export": export,
    "rsyslog": lambda message: "Mar  7 09:05:01 gx7 kernel: [ 7001.250000] " + message,
    "rsyslog RFC 3339": lambda message: "2026-03-07T09:05:01.250113+01:00 gx7 kernel: [ 7001.250000] " + message,
    "RFC 5424": lambda message: "<4>1 2026-03-07T08:05:01.250113Z gx7 kernel - - - " + message,
    "RFC 5424 with data": lambda message: '<4>1 2026-03-07T08:05:01.250113Z gx7 kernel - - [o@9 a="x\\]y]"] \ufeff' + message,
    "busybox": lambda message: "Sat Mar  7 09:05:01 2026 kern.warn kernel: [ 7001.250000] " + message,
    "German month": lambda message: "Mär 07 09:05:01 gx7 kernel: " + message,
    "Chinese month": lambda message: "3月 07 09:05:01 gx7 kernel: " + message,
    "unknown month": lambda message: "Xyz 07 09:05:01 gx7 kernel: " + message,
    "Talos": lambda message: "10.4.0.9: kern: warning: [2026-03-07T08:05:01.250113947Z]: " + message,
    "Cloud Logging": cloud_logging,
    "pdsh": lambda message: "gx7: [ 7001.250000] " + message,
    "container log": lambda message: json.dumps({"log": "[ 7001.250000] %s\n" % message, "stream": "stdout"}),
    "agent": lambda message: "[gpu-agent] [CRITICAL] GPU-77: kernel said: " + message,
    "health check": lambda message: "gx7 | ERROR: nhc: check_gpu failed: [ 7001.250000] " + message,
    "CRLF": lambda message: "[ 7001.250000] " + message + "\r",
    "paste without the first bracket": lambda message: " 7001.250000] " + message,
}


def parse(text: t.Union[str, bytes], **options: t.Any) -> KernelLog:
    options.setdefault("reference", REFERENCE)
    return kernel_log.parse(text, **options)


def sifted(text: bytes) -> t.List[bytes]:
    """What grep --text --fixed-strings --after-context leaves of a log, without the marks between groups."""
    kept, follow = [], 0
    for line in text.split(b"\n"):
        if any(needle in line for needle in kernel_log.NEEDLES):
            follow = kernel_log.CONTEXT_LINES
        elif follow:
            follow -= 1
        else:
            continue
        kept.append(line)
    return kept
