# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which variables a file sets: shell scripts, environment files, systemd units, nccl.conf, and any other text. Private to kentino.gpu.

Nothing is run. What a shell would only know when it runs (C($X), C($(...))) is a value that is not known.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .training_env_words import words

KINDS = ("shell", "env", "unit", "nccl_conf", "text", "environ")

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# ": ${NCCL_DEBUG:=WARN}"
_DEFAULT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):?=([^}]*)\}")
_KEYWORDS = frozenset(
    ("if", "then", "else", "elif", "fi", "do", "done", "while", "until", "for", "case", "esac", "in", "{", "}", "!", "time")
)
_EXPORTING = frozenset(("export", "declare", "typeset", "readonly", "local"))
# Any text: NAME=value, NAME: value, "NAME", "value", -e NAME=value, ENV NAME value. Only names of NCCL, PyTorch and CUDA.
_MENTION = re.compile(
    r"(?<![A-Za-z0-9_])((?:TORCH_|PYTORCH_|ENABLE_)?(?:NCCL|CUDA|TORCH|PYTORCH|FR|ALLOC|DISTRIBUTED)_[A-Z0-9_]*[A-Z0-9])(?![A-Za-z0-9_])"
)
_VALUE_BEHIND = re.compile(r"""["']?\s*\]?\s*(?:=|:|,|\s)\s*["']?([A-Za-z0-9_.:/^+-]{1,80})""")


@dataclass(frozen=True)
class Assignment:
    name: str
    value: t.Optional[str]  # None where it is not known before the program runs
    line: int  # of the file, from 1
    how: str = "set"  # set, unset, default (only where nothing is set yet), file (an environment file of a unit is read here)


@dataclass(frozen=True)
class Settings:
    assignments: t.Tuple[Assignment, ...]
    unrecognised: t.Tuple[t.Tuple[int, str], ...] = ()  # lines that are no setting and no comment


def parse(text: str, kind: str) -> Settings:
    """What C(text) sets, in its order; never raises."""
    text = text.replace("\r\n", "\n")
    return {
        "shell": _shell,
        "env": _env,
        "unit": _unit,
        "nccl_conf": _nccl_conf,
        "text": _text,
        "environ": _environ,
    }[kind](text)


def _shell(text: str) -> Settings:
    found: t.List[Assignment] = []
    state, variable = "start", ""
    for word in words(text):
        if word.operator:
            state = "redirect:" + state if word.text[:1] in ("<", ">") else "start"
            continue
        if state.startswith("redirect:"):
            state = state.partition(":")[2]
            continue
        match = _ASSIGNMENT.fullmatch(word.text)
        if state in ("start", "export", "env") and match and not word.quoted_start:
            # What precedes a command is for that command; nobody writes it down in a profile for nothing.
            literal = word.literal and not match.group(2)
            found.append(Assignment(match.group(1), match.group(3) if literal else None, word.line))
        elif state == "start" and word.text in _KEYWORDS:
            continue
        elif state == "start" and word.text in _EXPORTING:
            state = "export"
        elif state == "start" and word.text == "env":
            state = "env"
        elif state == "start" and word.text in ("unset", "unsetenv"):
            state = "unset"
        elif state == "start" and word.text == "setenv":
            state, variable = "setenv", ""
        elif state == "start" and word.text == ":":
            state = "colon"
        elif (state in ("export", "env") and word.text.startswith("-")) or (state == "export" and _NAME.fullmatch(word.text)):
            continue
        elif state == "unset":
            if _NAME.fullmatch(word.text):
                found.append(Assignment(word.text, None, word.line, "unset"))
        elif state == "setenv":
            if variable:
                found.append(Assignment(variable, word.text if word.literal else None, word.line))
                state = "arguments"
            variable = word.text
        elif state == "colon":
            for name, value in _DEFAULT.findall(word.text):
                found.append(Assignment(name, None if "$" in value else value, word.line, "default"))
        else:
            state = "arguments"
    return Settings(tuple(found))


def _env(text: str) -> Settings:
    """EnvironmentFile= of systemd, /etc/environment of pam_env, environment.d, --env-file of container engines."""
    found, unrecognised = [], []
    for number, line in _joined(text):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        match = _ASSIGNMENT.fullmatch(re.sub(r"^export\s+", "", line))
        if match is None:
            unrecognised.append((number, line[:200]))
            continue
        value = match.group(3).strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found.append(Assignment(match.group(1), value, number))
    return Settings(tuple(found), tuple(unrecognised))


def _unit(text: str) -> Settings:
    found: t.List[Assignment] = []
    unrecognised = []
    section = ""
    for number, line in _joined(text):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section = line
            continue
        key, equals, value = line.partition("=")
        if not equals or not section:
            unrecognised.append((number, line[:200]))
            continue
        key, value = key.strip(), value.strip()
        if key in ("Environment", "DefaultEnvironment"):
            for word in words(value):
                match = _ASSIGNMENT.fullmatch(word.text)
                if match:
                    # A unit expands specifiers such as %n, and no dollars.
                    found.append(Assignment(match.group(1), None if "%" in match.group(3) else match.group(3), number))
        elif key == "UnsetEnvironment":
            for word in words(value):
                found.append(Assignment(word.text.partition("=")[0], None, number, "unset"))
        elif key == "EnvironmentFile":
            found.append(Assignment("", value, number, "file"))
    return Settings(tuple(found), tuple(unrecognised))


def _nccl_conf(text: str) -> Settings:
    """As NCCL reads it (src/misc/param.cc): all behind the first equals sign, quotes and blanks too."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.append(Assignment(name, value, number))
    return Settings(tuple(found))


def _text(text: str) -> Settings:
    """Job scripts in Python, compose files, Dockerfiles: each line that names a variable outside a comment."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line[:2000]
        if line.lstrip().startswith(("#", "//")):
            continue
        for match in _MENTION.finditer(line):
            behind = _VALUE_BEHIND.match(line, match.end())
            found.append(Assignment(match.group(1), behind.group(1) if behind else None, number))
    return Settings(tuple(found))


def _environ(text: str) -> Settings:
    """Of a process, as the kernel has it."""
    found = []
    for item in text.split("\0"):
        name, equals, value = item.partition("=")
        if equals and _NAME.fullmatch(name):
            found.append(Assignment(name, value, 0))
    return Settings(tuple(found))


def _joined(text: str) -> t.Iterator[t.Tuple[int, str]]:
    """Lines with those that a backslash continues, each with the number of its first."""
    begun, held = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        begun = begun or number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        yield begun, held + line
        begun, held = 0, ""
    if held:
        yield begun, held
