# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import parse


def kills(text):
    return [(one.pid, one.name, one.scope, one.uid, one.invoker, one.kill_confirmed) for one in parse(text).oom]


ASKED = "dataloader invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0"
CHOSEN = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/user.slice,"
    "task=trainer,pid=812,uid=1001"
)
KILLED = (
    "Out of memory: Killed process 812 (trainer) total-vm:91kB, anon-rss:80kB, file-rss:0kB, shmem-rss:0kB, UID:1001 "
    "pgtables:1kB oom_score_adj:0"
)
MEMCG_CHOSEN = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=pod7,mems_allowed=0,oom_memcg=/kubepods/pod7,task_memcg=/kubepods/pod7/c1,"
    "task=trainer,pid=812,uid=1001"
)
MEMCG_KILLED = "Memory cgroup out of memory: Killed process 812 (trainer) total-vm:91kB, anon-rss:80kB, file-rss:0kB, shmem-rss:0kB"
TABLE = "[ 4021]     0   4022  3226957  2875051    5692        0             0 trainer"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [ASKED, TABLE, CHOSEN, KILLED], [(812, "trainer", "global", 1001, "dataloader", True)], id="kernel 5.15: all lines of one kill"
        ),
        pytest.param([ASKED, MEMCG_CHOSEN, MEMCG_KILLED], [(812, "trainer", "memcg", 1001, "dataloader", True)], id="limit of a container"),
        pytest.param([KILLED], [(812, "trainer", "global", 1001, None, True)], id="only the kill"),
        pytest.param([CHOSEN], [(812, "trainer", "global", 1001, None, True)], id="only the choice"),
        pytest.param([ASKED], [(None, None, None, None, "dataloader", False)], id="asked, nothing more seen"),
        pytest.param([ASKED, CHOSEN[:110]], [(None, None, "global", None, "dataloader", False)], id="choice cut before the victim"),
        pytest.param(
            [
                "Out of memory: Kill process 44 (R) score 31 or sacrifice child",
                "Killed process 44 (R) total-vm:38kB, anon-rss:10kB, file-rss:4kB",
            ],
            [(44, "R", "global", None, None, True)],
            id="kernel 4.15: announcement and kill",
        ),
        pytest.param(
            [
                "Out of memory: Kill process 44 (bash) score 31 or sacrifice child",
                "Killed process 45 (trainer) total-vm:38kB, anon-rss:10kB, file-rss:4kB",
            ],
            [(45, "trainer", "global", None, None, True)],
            id="kernel 4.15: a child is sacrificed",
        ),
        pytest.param(
            ["Memory cgroup out of memory: Kill process 44 (R) score 1961 or sacrifice child"],
            [(44, "R", "memcg", None, None, True)],
            id="only the announcement",
        ),
        pytest.param(
            ["Killed process 44 (R) total-vm:38kB, anon-rss:10kB, file-rss:4kB"],
            [(44, "R", None, None, None, True)],
            id="announcement lost",
        ),
        pytest.param(["Out of memory: Killed process 2713, UID 48, (httpd)"], [(2713, "httpd", "global", 48, None, True)], id="RHEL 6"),
        pytest.param(
            ["Out of memory (oom_kill_allocating_task): Killed process 9 (a) total-vm:1kB"],
            [(9, "a", "global", None, None, True)],
            id="the one that asked is killed",
        ),
        pytest.param(
            ["Out of memory: Killed process 77 ((sd-pam)) total-vm:1kB, anon-rss:1kB"],
            [(77, "(sd-pam)", "global", None, None, True)],
            id="brackets in the name",
        ),
        pytest.param(
            ["Out of memory: Killed process 77 (my prog) x) total-vm:1kB"],
            [(77, "my prog) x", "global", None, None, True)],
            id="half a bracket in the name",
        ),
        pytest.param([CHOSEN.replace("trainer", "a, b")], [(812, "a, b", "global", 1001, None, True)], id="comma in the name"),
        pytest.param(
            ["kworker/u8:2 invoked oom-killer: gfp_mask=0xcc0"], [(None, None, None, None, "kworker/u8:2", False)], id="colon in the name"
        ),
        pytest.param(
            [KILLED, KILLED.replace("812", "813")],
            [(812, "trainer", "global", 1001, None, True), (813, "trainer", "global", 1001, None, True)],
            id="two kills",
        ),
        pytest.param(
            [KILLED, "gx7 kubelet[7]: kernel said: " + KILLED], [(812, "trainer", "global", 1001, None, True)], id="one kill told twice"
        ),
        pytest.param(
            [ASKED, CHOSEN, KILLED, ASKED.replace("dataloader", "sshd"), CHOSEN.replace("812", "900"), KILLED.replace("812", "900")],
            [(812, "trainer", "global", 1001, "dataloader", True), (900, "trainer", "global", 1001, "sshd", True)],
            id="two whole reports",
        ),
        pytest.param(
            [
                "systemd-oomd[632]: Killed /user.slice/user-1001.slice/run.scope due to memory pressure for /user.slice being "
                "81.00% > 50.00%"
            ],
            [(None, "/user.slice/user-1001.slice/run.scope", None, None, "systemd-oomd", True)],
            id="systemd-oomd",
        ),
        pytest.param(
            ['earlyoom[12]: sending SIGTERM to process 4242 uid 1001 "trainer": badness 801, VmRSS 100 MiB'],
            [(4242, "trainer", None, 1001, "earlyoom", True)],
            id="earlyoom",
        ),
        pytest.param(
            ["oom_reaper: reaped process 812 (trainer), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"], [], id="the reaper is no killer"
        ),
        pytest.param([TABLE], [], id="row of the process table"),
        pytest.param(["trainer: CUDA out of memory. Tried to allocate 2.00 GiB"], [], id="a GPU's memory"),
    ],
)
def test_kills(lines, expected):
    assert kills("\n".join(lines)) == expected
    assert (
        kills("\n".join("Mar 07 09:05:01 gx7 kernel: [%d.000001] %s" % (number, line) for number, line in enumerate(lines, 518)))
        == expected
    )


def test_what_stands_between_the_lines_of_a_kill_is_not_lost():
    log = parse("\n".join([ASKED, "NVRM: Xid (PCI:0000:4b:00): 31, pid=812, name=trainer, Ch 00000008", CHOSEN, KILLED]))
    assert (len(log.oom), [one.xid for one in log.events]) == (1, [31])
