# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One sentence for each action word, said to the person who has to do it. Private to kentino.gpu."""

from __future__ import annotations

SENTENCES = {
    "none": "Nothing to repair now: note it, and watch whether it comes back.",
    "look_at_code": "Look at the program that was running before blaming the card.",
    "restart_job": "Restart the job; the machine can stay in service.",
    "reset_gpu": "Reset the GPU once its jobs have ended or are stopped, then retest.",
    "reboot_node": "Drain the node and reboot it, then retest.",
    "check_cooling": "Check fans, filters, air flow and room temperature, then retest.",
    "check_power": "Check power supplies, power cables and their plugs, then retest; no RMA before that.",
    "reseat": "Reseat the card, riser and power cables, then retest; no RMA before that.",
    "contact_vendor": "Save the logs, for a GPU also nvidia-bug-report, and ask the vendor.",
    "replace": "Take it out of service and have it replaced.",
}


def sentence(action: str) -> str:
    """What to do, in the imperative; a word that is not one of ours is given back as it is."""
    return SENTENCES.get(action, action)
