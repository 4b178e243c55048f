# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleTypeError
from ansible.template import accept_args_markers
from ansible_collections.kentino.gpu.plugins.module_utils._report.policy import WORST, Policy, decide


# An undefined variable is no evidence: the answer is no, as for a skipped task, and not an error of the template.
@accept_args_markers
def healthy(result: t.Any, worst: str = "pass", required: t.Any = ()) -> bool:
    """Whether the result of a check module is positive evidence that the node is fit."""
    if not isinstance(worst, str) or worst not in WORST:
        raise AnsibleTypeError("healthy: worst must be one of %s, got %s" % (", ".join(WORST), _shown(worst)))
    names = [required] if isinstance(required, str) else required
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise AnsibleTypeError("healthy: required must be a list of names of checks, got %s" % _shown(required))
    return decide(result, Policy(worst, tuple(names))).open


def _shown(value: t.Any) -> str:
    return repr(value) if isinstance(value, (str, int, float, type(None))) else type(value).__name__


class TestModule:
    def tests(self) -> t.Dict[str, t.Callable[..., bool]]:
        return {"healthy": healthy}
