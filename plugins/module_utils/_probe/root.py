# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the node's files are. Private to kentino.gpu."""

from __future__ import annotations

import os


def under_root(path: str) -> str:
    """C(path), below the directory named by the variable KENTINO_GPU_ROOT where it is set.

    For a container that sees its host's files under such a directory, and for the simulated node.
    """
    root = os.environ.get("KENTINO_GPU_ROOT", "")
    return os.path.join(root, path.lstrip("/")) if root else path
