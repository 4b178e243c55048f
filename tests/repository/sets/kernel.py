# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Headers for the kernel that runs under the containers, which is none of the distribution's; and the package of NVIDIA's key."""

import os

from package import DISTRIBUTION, Package

KERNEL = os.uname().release
PACKAGES = [
    Package(
        "linux-headers-" + KERNEL,
        "1",
        files={"/usr/src/linux-headers-%s/Makefile" % KERNEL: "# simulated\n"},
        links={"/lib/modules/%s/build" % KERNEL: "/usr/src/linux-headers-" + KERNEL},
        repository=DISTRIBUTION,
    ),
    Package("cuda-keyring", "1.1-1", architecture="all"),
]
