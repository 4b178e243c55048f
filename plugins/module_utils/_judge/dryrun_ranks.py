# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How findings call a rank. Private to kentino.gpu."""

from __future__ import annotations

from .._parse.dryrun_records import Rank
from .._report.model import Subject


def subject(rank: Rank) -> Subject:
    """A rank is its GPU: a waiver or an incident that names the card means the rank as well."""
    device = rank.device
    if device is None:
        return Subject("rank", index=rank.rank)
    return Subject("rank", index=rank.rank, pci=device.pci, uuid=device.uuid, serial=device.serial)


def name(rank: Rank) -> str:
    device = rank.device
    return "rank %d" % rank.rank if device is None or device.index is None else "rank %d on GPU %d" % (rank.rank, device.index)


def full_name(rank: Rank) -> str:
    """With all that helps to find what is left of it."""
    device = rank.device
    parts = []
    if device is not None:
        parts.append(" ".join(str(part) for part in ("GPU", device.index, device.pci) if part is not None))
    if rank.pid is not None:
        parts.append("pid %d" % rank.pid)
    if rank.host:
        parts.append("on %s" % rank.host if parts else rank.host)
    text = ", ".join(parts).replace(", on ", " on ")
    return "rank %d (%s)" % (rank.rank, text) if text else "rank %d" % rank.rank
