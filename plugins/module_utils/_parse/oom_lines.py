# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills for want of memory, by the kernel or by a daemon. Private to kentino.gpu.

The kernel prints who asked for memory, then whom it chose (4.19 on), then the kill; before 5.0 an announcement and the kill were two
lines, and the one killed may be a child of the one announced. All of these are one record.
"""

from __future__ import annotations

import re
import typing as t

from .lazy_pattern import lazy
from .log_drafts import Draft, Drafts
from .log_envelope import Line
from .log_shape import excerpt

_TAIL_CHARACTERS = 500
_NAME_WINDOW = 160
_TASK_NAME_CHARACTERS = 16

_INVOKED = " invoked oom-killer"
_CHOSEN = lazy(r"oom-kill:constraint=(CONSTRAINT_[A-Z_]{1,32})?", re.ASCII)
# task_memcg and cpuset hold paths with almost any character; the last task= is the victim's.
_VICTIM = lazy(r",task=([^\n]{1,64}?),pid=(\d{1,10})(?:,uid=(\d{1,10}))?", re.ASCII)
_KILL = lazy(
    r"(?:(Out of memory|Memory cgroup out of memory)(?: \([a-z_]{1,40}\))?: {1,2})?(Killed|Kill) process (\d{1,10})"
    r"(?:, UID (\d{1,10}),)? \(",
    re.ASCII,
)
_UID = lazy(r"\bUID:(\d{1,10})", re.ASCII)
_NAME_END = lazy(r"\)(?:,| total-vm| vm-?size| score |$|\s*$)", re.ASCII)
# systemd-oomd[632]: Killed /user.slice/.../app.scope due to memory pressure for ..., or: due to memory used (...)
_OOMD = lazy(r"Killed (/\S{1,512}) due to (?:memory|swap)")
# earlyoom: sending SIGTERM to process 4242 uid 1000 "python3": badness 801
_EARLYOOM = lazy(r'sending SIG(?:TERM|KILL) to process (\d{1,10})(?: uid (\d{1,10}))? "([^"\n]{0,64})"', re.ASCII)


class OomReader:
    def __init__(self, touched: t.List[t.Tuple[Draft, int]]) -> None:
        self.drafts = Drafts(touched)
        # By boot and machine: a record that still waits for the lines behind it.
        self._asked: t.Dict[t.Hashable, Draft] = {}
        self._announced: t.Dict[t.Hashable, Draft] = {}
        self._killed: t.Dict[t.Hashable, Draft] = {}

    def read(self, message: str, line: Line) -> None:
        place = (line.boot, line.host)
        asked = message.find(_INVOKED)
        if asked > 0:
            fields = _fields(message, invoker=_invoker(message[:asked]), kill_confirmed=False)
            self._asked[place] = self.drafts.append(line, fields)
            return
        match = _CHOSEN.search(message)
        if match:
            self._chosen(match, message, line, place)
            return
        for kill in _KILL.finditer(message):
            self._kill(kill, message, line, place)
        if "Killed /" in message:
            match = _OOMD.search(message)
            if match:
                self.drafts.append(line, _fields(message, name=match.group(1), invoker="systemd-oomd"))
        elif "earlyoom" in message:
            match = _EARLYOOM.search(message)
            if match:
                pid, uid, name = match.groups()
                fields = _fields(message, pid=int(pid), name=name, uid=int(uid) if uid else None, invoker="earlyoom")
                self._once(place, fields, line)

    def _chosen(self, match: t.Match[str], message: str, line: Line, place: t.Hashable) -> None:
        tail = message[match.end() :]
        memcg = match.group(1) == "CONSTRAINT_MEMCG" or ",oom_memcg=" in tail
        scope = "memcg" if memcg else "global" if ",global_oom" in tail or match.group(1) == "CONSTRAINT_NONE" else None
        victim = _VICTIM.search(tail, max(0, tail.rfind(",task=")))
        draft = self._asked.pop(place, None) or self.drafts.append(line, _fields(message, kill_confirmed=False))
        draft.fields["scope"] = scope
        if victim is None:
            self._asked[place] = draft  # cut before the victim's name
            return
        name, pid, uid = victim.groups()
        draft.fields.update(name=name, pid=int(pid), uid=int(uid) if uid else None, kill_confirmed=True)
        self._announced[place] = self._once(place, draft.fields, line, draft)

    def _kill(self, match: t.Match[str], message: str, line: Line, place: t.Hashable) -> None:
        lead, word, digits, uid = match.groups()
        window = message[match.end() : match.end() + _NAME_WINDOW]
        name = _name(window)
        pid = int(digits)
        if "sharing same memory" in window:
            return
        if uid is None:
            later = _UID.search(message, match.end(), match.end() + _TAIL_CHARACTERS)
            uid = later.group(1) if later else None
        fields = _fields(excerpt(message, match.start()), pid=pid, name=name, uid=int(uid) if uid else None)
        if lead:
            fields["scope"] = "memcg" if lead.startswith("Memory") else "global"
        draft = self._announced.get(place)
        if draft is not None and (draft.fields["pid"] == pid or (word == "Killed" and draft.fields.get("child_possible"))):
            if word == "Killed":
                del self._announced[place]
                draft.fields.pop("child_possible", None)
        else:
            draft = self._asked.pop(place, None)
        if draft is not None:
            draft.fields.update({key: value for key, value in fields.items() if value is not None and (key != "text" or word == "Killed")})
            draft.fields["kill_confirmed"] = True
        draft = self._once(place, draft.fields if draft is not None else fields, line, draft)
        if word == "Kill":
            draft.fields["child_possible"] = True
            self._announced[place] = draft

    def _once(self, place: t.Hashable, fields: t.Dict[str, t.Any], line: Line, draft: t.Optional[Draft] = None) -> Draft:
        """A kill told a second time, by the kernel or by a tool that quotes it, is the same kill."""
        key = (place, fields["pid"], fields["name"])
        known = self._killed.get(key)
        if known is None:
            known = self._killed[key] = draft if draft is not None else self.drafts.append(line, fields)
        elif draft is not None and draft is not known:
            self.drafts.drop(draft)
        return known

    def finish(self) -> None:
        for draft in self.drafts:
            draft.fields.pop("child_possible", None)


def _fields(message: str, **facts: t.Any) -> t.Dict[str, t.Any]:
    return {"pid": None, "name": None, "scope": None, "uid": None, "invoker": None, "text": excerpt(message), **facts}


def _name(window: str) -> t.Optional[str]:
    """A task's name may hold brackets itself, C(((resolved))): it ends at the last one before what the kernel prints behind."""
    match = _NAME_END.search(window)
    if match:
        return window[: match.start()]
    last = window.rfind(")")
    return window[:last] if last >= 0 else window.strip() or None


def _invoker(before: str) -> str:
    """The task's name; longer than a task's name can be is one with a quoting tool's words before it."""
    if len(before) > _TASK_NAME_CHARACTERS:
        before = re.split(r"[:\]] ", before[-80:])[-1]
    return before.strip()
