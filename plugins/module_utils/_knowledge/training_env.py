# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment that training on a node of ours starts with. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from .thresholds import Threshold
from .torch_environment import allocator_variable, hang_variables, version

PROFILE_PATH = "/etc/profile.d/kentino-gpu.sh"
UNIT_ENVIRONMENT_PATH = "/etc/kentino-gpu/training.env"
CONTAINER_ENVIRONMENT_PATH = "/etc/kentino-gpu/container.env"
DUMP_PATH = "/var/lib/kentino-gpu/flight-recorder"
DROP_IN = "50-kentino-gpu-training.conf"

# PyTorch keeps 2000 by itself (2.11 and newer): with some hundred collectives a step that is the last few steps.
BUFFER_SIZE = 20000
ALLOCATOR = "expandable_segments:True"
# The dump of each rank is this word and its number.
DUMP_PREFIX = "rank_"

# One of the last without and one with the names of today: together they have every name that a release in use reads.
_ALL_RELEASES = ("2.7.1", "2.9.1")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A value is written to shells, to systemd and to container engines, each with other rules for quotes, backslashes and dollars. What none
# of them treats in its own way is equal in all three.
_VALUE = re.compile(r"[A-Za-z0-9_./:,=^+@%-](?:[A-Za-z0-9_./:,=^+@% -]*[A-Za-z0-9_./:,=^+@%-])?|")

P2P_LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")
P2P = ("measured", "default", "off", *P2P_LEVELS)

DUMP_ENTRY_BYTES = Threshold(
    "training_env_dump_entry_bytes",
    1024,
    "bytes",
    "one entry of a flight recorder's dump with its stack; four times what was measured with 84 frames",
    "measured with PyTorch 2.13 and gloo: 125 bytes for each of 3000 equal calls 3 frames deep, 249 for each of 4000 calls of 977 sizes "
    "84 frames deep",
    "2026-11-30",
    "own",
)
DUMPS_KEPT = Threshold(
    "training_env_dumps_kept",
    20,
    "dumps",
    "how many dumps of all ranks there should be room for before somebody has to clean up; a warning below, critical below one",
    "Kentino: the restarts of a bad night",
    "2026-11-30",
    "own",
)


def dump_bytes(buffer_size: int, ranks: int) -> int:
    """How much the dump of all ranks takes at most."""
    return int(buffer_size * DUMP_ENTRY_BYTES.value) * ranks


def profile(
    torch_version: t.Optional[str],
    dump_path: t.Optional[str] = DUMP_PATH,
    buffer_size: int = BUFFER_SIZE,
    allocator: str = ALLOCATOR,
    more: t.Optional[t.Mapping[str, str]] = None,
    extra: t.Optional[t.Mapping[str, t.Optional[str]]] = None,
) -> t.Dict[str, str]:
    """The variables, by name. C(extra) wins: with None a variable is left out.

    Where the version is not known, under every name that a release from 2.2 on reads. ValueError for what cannot be written.
    """
    prefix = dump_path.rstrip("/") + "/" + DUMP_PREFIX if dump_path else ""
    known = version(torch_version)
    variables: t.Dict[str, str] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    for release in [torch_version] if known else _ALL_RELEASES:
        for name, value in hang_variables(release, prefix).items():
            variables[name] = str(buffer_size) if name.endswith("_BUFFER_SIZE") else value
        # PyTorch 2.0 stops at a key that it does not know.
        if allocator and not (known and known < (2, 1)):
            variables[allocator_variable(release)] = allocator
    if not dump_path:
        variables = {name: value for name, value in variables.items() if value}
    variables.update(more or {})
    for name, given in (extra or {}).items():
        if given is None:
            variables.pop(name, None)
        else:
            variables[name] = given
    for name, value in variables.items():
        check(name, value)
    return dict(sorted(variables.items()))


def check(name: str, value: str) -> None:
    """ValueError for a variable that shells, systemd and container engines would not read in the same way."""
    if not _NAME.fullmatch(name):
        raise ValueError("%r is no name of a variable; expected letters, digits and underscores, such as NCCL_SOCKET_IFNAME" % name)
    if not _VALUE.fullmatch(value):
        raise ValueError(
            "the value of %s is %r; expected letters, digits and _./:,=^+@%%- (blanks inside), because quotes, backslashes, dollars and "
            "line ends are read differently by shells, systemd and container engines" % (name, value)
        )


def notes(torch_version: t.Optional[str]) -> t.List[str]:
    """What a person should know of the names that were chosen."""
    known = version(torch_version)
    if not known:
        return [
            "the version of PyTorch is not known: the names of all releases from 2.2 on are set, old and new ones; from 2.8 on PyTorch "
            "warns of the old ones, which does no harm"
        ]
    if known < (2, 2):
        return ["PyTorch %s has no flight recorder: a hang ends the job, and no dump tells which rank was missing" % torch_version]
    return []
