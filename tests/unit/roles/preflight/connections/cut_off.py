# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A local connection to a host that no longer answers once the file in KENTINO_CUT_OFF exists."""

from __future__ import annotations

import os

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import local

DOCUMENTATION = """
name: cut_off
short_description: A host that goes away
description: For tests.
author: Kentino (@kentino)
"""


class Connection(local.Connection):
    transport = "cut_off"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if os.path.exists(os.environ["KENTINO_CUT_OFF"]):
            raise AnsibleConnectionFailure("the host does not answer")
        return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
