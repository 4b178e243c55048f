/* Copyright (c) 2026, Kentino
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A container has the kernel of its host. With this in /etc/ld.so.preload everybody in it is told RELEASE instead: for the stand-in for
 * RHEL a name that is taken apart as RHEL's are, and for Debian's own driver a kernel whose headers Debian has. */

#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int uname(struct utsname *name)
{
    int failed = (int)syscall(SYS_uname, name);

    if (!failed)
        strncpy(name->release, RELEASE, sizeof name->release - 1);
    return failed;
}
