# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(explain): what an Xid, an SXid or a finding means and what to do, for a person at the console. Private to kentino.gpu."""

from __future__ import annotations

import re
import textwrap
import typing as t

from .._judge.kernel_log import KernelPolicy, judge
from .._knowledge import actions, codes, sxid_catalogue, xid_catalogue
from .._knowledge.xid_catalogue import XidEntry
from .._parse import kernel_log
from .._report.model import Finding

EXPECTED = "expected an Xid (79, xid 79), an SXid (sxid 20034), the code of a finding (gpu.pcie_width) or a line of the kernel log"

_WIDTH = 110
_SYMBOL = "Driver name"
_LABEL = 15  # columns for the longest label and its colon

_NUMBER = re.compile(r"(?:nvrm:?\s*)?(?:xid)?[\s.:#=_-]*(\d{1,3})$", re.IGNORECASE)
_SXID = re.compile(r"sxid[\s.:#=_-]*(\d{1,5})$", re.IGNORECASE)
_XID_IN_LINE = re.compile(r"\bXid ?\([^()]{0,80}\)\s*:?\s*(\d{1,3})(?!\d)", re.IGNORECASE)
_SXID_IN_LINE = re.compile(r"\bSXid ?\([^()]{0,80}\)\s*:?\s*(\d{1,5})(?!\d)", re.IGNORECASE)

_SEVERITY = {
    "info": "information; it does not stop a run",
    "warning": "a warning; look at it before the next long run",
    "critical": "critical; nothing should run on this GPU until it is dealt with",
}
_APP = {
    "yes": "yes, an application alone can cause it",
    "possible": "possibly, but hardware and driver are as likely",
    "no": "no, no application can cause it by itself",
    "unknown": "nobody says",
}


def explain(what: str, policy: t.Optional[t.Mapping[t.Any, t.Any]] = None) -> str:
    """Some ten lines of text. C(policy) is the inventory's gpu_xid_policy.

    Raises ValueError, naming what was expected, for what is none of these.
    """
    text = what.strip()
    lookup = xid_catalogue.with_overrides(policy)
    number = _first(text, _SXID, _SXID_IN_LINE)
    if number is not None:
        return _sxid(number, _judged(text, policy) if _SXID_IN_LINE.search(text) else ())
    number = _first(text, _NUMBER, _XID_IN_LINE)
    if number:
        return _xid(lookup(number), _judged(text, policy) if _XID_IN_LINE.search(text) else ())
    entry = codes.lookup(text.lower().rstrip(".:,;"))
    if entry is not None:
        return _code(text.lower().rstrip(".:,;"), entry)
    # A line of another kind: a lost GPU in plain words, a driver that could not start, a disk.
    found = _judged(text, policy)
    if found and found[0].code.startswith("xid."):
        return _xid(lookup(int(found[0].code[4:])), found)
    entry = codes.lookup(found[0].code) if found else None
    if entry is not None:
        return _code(found[0].code, entry)
    raise ValueError("cannot explain %r: %s" % (what if len(what) <= 80 else what[:77] + "...", EXPECTED))


def _judged(text: str, policy: t.Optional[t.Mapping[t.Any, t.Any]]) -> t.Sequence[Finding]:
    """What a line of the log comes to by itself."""
    found = judge(kernel_log.parse(text), KernelPolicy(xid_policy=policy or {}))
    return [one for one in found if not one.code.startswith("kernel_log.")]


def _first(text: str, *patterns: t.Pattern[str]) -> t.Optional[int]:
    """The number by the first pattern, which must be the whole text, or by another, which may stand anywhere in it."""
    match = patterns[0].match(text) or next(filter(None, (pattern.search(text) for pattern in patterns[1:])), None)
    return int(match.group(1)) if match else None


def _xid(entry: XidEntry, found: t.Sequence[Finding]) -> str:
    later = actions.sentence(entry.later_action) if entry.later_action != entry.action else ""
    rows = [
        ("How bad", _how_bad(entry)),
        *_this_line("xid.%d" % entry.number, "Xid %d: %s" % (entry.number, entry.meaning), found),
        *([("Do first", actions.sentence(entry.action)), ("How", entry.advice)] if entry.number != 154 else _recoveries(entry)),
        ("If it returns", later),
        ("Application", _APP[entry.app_caused]),
        ("Comes from", ", ".join(entry.sources) or "nobody says"),
        ("Comes with", entry.seen_with),
        ("Who says so", entry.rationale),
        ("Applies to", _applies(entry)),
        (_SYMBOL, entry.symbol),
    ]
    if entry.overridden:
        rows.append(("Inventory", "this site's gpu_xid_policy sets " + ", ".join(sorted(entry.overridden))))
    return _page("Xid %d: %s." % (entry.number, entry.meaning), rows)


def _how_bad(entry: XidEntry) -> str:
    bad = _SEVERITY[entry.severity]
    if entry.app_caused == "yes" and entry.severity == "warning" and "severity" not in entry.overridden:
        bad = "an application alone explains it, so one by itself is information. Repeated on one card it is a warning"
    if entry.decided_by == "subcode":
        bad = "decided by the words and registers behind the number. Where they cannot be read: " + bad
    elif entry.decided_by == "message":
        bad = "decided by the text of the line. Where it cannot be read: " + bad
    return bad + (". It pages at once" if entry.page else "")


def _this_line(code: str, known: str, found: t.Sequence[Finding]) -> t.Iterator[t.Tuple[str, str]]:
    """What the very line comes to, where one was given and not just a number; C(known) is what stands above already."""
    for one in found:
        if one.code == code:
            more = one.message[len(known) :].lstrip("; ") if one.message.startswith(known) else one.message
            yield (
                "This line",
                "%s, %s%s. %s" % (one.subject.label(), one.severity, ": " + more if more else "", actions.sentence(one.action)),
            )
            return


def _recoveries(entry: XidEntry) -> t.Iterator[t.Tuple[str, str]]:
    yield "To a reset", actions.sentence("reset_gpu")
    yield "To a reboot", actions.sentence("reboot_node")
    yield "Anything else", actions.sentence(entry.action)
    yield "How", entry.advice


def _applies(entry: XidEntry) -> str:
    if not entry.known:
        return ""
    chips = ", ".join(entry.applies_to) if entry.applies_to else "none of A100, H100, B100, GB200; older or other chips"
    return chips + ("; " + entry.since if entry.since else "")


def _sxid(number: int, found: t.Sequence[Finding]) -> str:
    entry = sxid_catalogue.lookup(number)
    bad = "the word in the line decides: Fatal is critical, Non-fatal a warning, Correctable information"
    if entry.harmless:
        bad = "harmless unless the line says Fatal"
    rows = [
        ("How bad", bad),
        *_this_line("sxid.%d" % number, "SXid %d: %s" % (number, entry.meaning), found),
        ("Do first", "Look for Xid 79 or 74 of a GPU at the same moment: a lost GPU takes its links down, and is recovered first."),
        ("If fatal", actions.sentence(entry.action) + " All GPUs of the fabric are reset together."),
        ("If it returns", actions.sentence(entry.later_action)),
        ("Known of it", entry.note),
        ("Application", _APP["no"]),
        ("Comes from", ", ".join(entry.sources) or "nobody says"),
        ("Who says so", "families as in NVIDIA's open driver 595; the harmless list is in its Fabric Manager guide, section D.4."),
        (_SYMBOL, entry.symbol),
    ]
    return _page("SXid %d (NVSwitch): %s." % (number, entry.meaning), rows)


def _code(code: str, entry: codes.CodeEntry) -> str:
    rows = [
        ("How bad", "at its worst it " + entry.weight),
        ("Do first", actions.sentence(entry.action) if entry.action != "none" or not entry.advice else entry.advice),
        ("How", entry.advice if entry.action != "none" else ""),
    ]
    return _page("%s: %s." % (code, entry.meaning), rows)


def _page(title: str, rows: t.Iterable[t.Tuple[str, str]]) -> str:
    lines = textwrap.wrap(title, _WIDTH)
    for label, text in rows:
        if text:
            words = text if text.endswith(".") or label == _SYMBOL else text + "."
            lines += textwrap.wrap(
                words[0].upper() + words[1:],
                _WIDTH,
                initial_indent=(label + ":").ljust(_LABEL),
                subsequent_indent=" " * _LABEL,
                break_on_hyphens=False,
            )
    return "\n".join(lines)
