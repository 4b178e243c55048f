# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of roles as "-e name=value" gives them: strings. C(not "false") is true, and C("30" * 1000) is no number."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"


def options(*types: str) -> t.List[t.Tuple[str, str]]:
    """Role and name of the options of these types."""
    found = []
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found += [(path.parts[-3], name) for name, one in entry.get("options", {}).items() if one.get("type") in types]
    return sorted(set(found))


def expressions(value: t.Any, key: str = "") -> t.Iterator[str]:
    """What Jinja evaluates: templates, and the words that are expressions by themselves."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from expressions(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from expressions(one, key)
    elif isinstance(value, str):
        bare = key in ("when", "that", "until", "changed_when", "failed_when") and "{{" not in value
        yield from [value] if bare else re.findall(r"(?s)\{\{(.*?)\}\}", value)


def used(role: str) -> t.Iterator[t.Tuple[str, str]]:
    for folder in ("tasks", "handlers", "vars"):
        for path in sorted((ROLES / role / folder).glob("*.yml")):
            for text in expressions(yaml.safe_load(path.read_text())):
                yield path.name, re.sub(r"'[^']*'", "''", " ".join(text.split()))
    for path in sorted((ROLES / role).glob("templates/*.j2")):
        for text in re.findall(r"(?s)\{[{%](.*?)[%}]\}", path.read_text()):
            yield path.name, re.sub(r"'[^']*'", "''", " ".join(text.split()))


@pytest.mark.parametrize(("role", "name"), options("bool"))
def test_booleans_are_read_as_such(role, name):
    for path, text in used(role):
        for found in re.finditer(r"(?<![\w.])%s(?!\w)(.{0,7})" % name, text):
            # Alone it is an argument of a module, which reads "false" as one would.
            assert found.group(1).startswith(" | bool") or text.strip() == name, "%s/%s: %s" % (role, path, text)


@pytest.mark.parametrize(("role", "name"), options("int", "float"))
def test_numbers_are_calculated_with_as_such(role, name):
    for path, text in used(role):
        for found in re.finditer(r"(?<![\w.])%s(?!\w) *(//|[*+<>/-]|==)" % name, text):
            raise AssertionError("%s/%s: %s" % (role, path, found.string))
