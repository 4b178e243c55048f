# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make build/repository: signed apt repositories and source archives, laid out as upstream lays them out, for the test nodes."""

import fcntl
import glob
import gzip
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
from package import CONTAINER_TOOLKIT, CUDA, DEBIAN, DISTRIBUTION, ROOT, UBUNTU, build  # noqa: E402

TARGET = os.path.join(ROOT, "build/repository")
# The files by which upstream's keys are known, below the URL of their repository.
CUDA_KEYS = {"debian12": "3bf863cc.pub", "debian13": "8793F200.pub", "ubuntu2204": "3bf863cc.pub", "ubuntu2404": "3bf863cc.pub"}
CONTAINER_KEY = "libnvidia-container/gpgkey"


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sets():
    for path in sorted(glob.glob(os.path.join(HERE, "sets/*.py"))):
        yield from load(path).PACKAGES


def inputs():
    digest = hashlib.sha256(os.uname().release.encode())
    for folder, folders, files in os.walk(HERE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            digest.update(name.encode())
            with open(os.path.join(folder, name), "rb") as handle:
                digest.update(handle.read())
    library = os.path.join(ROOT, "build/simulator/libnvidia-ml.so.1")
    with open(library, "rb") as handle:
        digest.update(handle.read())
    return digest.hexdigest()


class Key:
    """A key for these tests, made with the first of them; its secret half is not worth protecting."""

    def __init__(self, home):
        self.home = home
        if not os.path.isdir(home):
            os.mkdir(home, 0o700)
            self.gpg("--quick-gen-key", "--passphrase", "", "kentino.gpu tests <tests@kentino.invalid>", "rsa3072", "sign", "never")
        listing = self.gpg("--with-colons", "--list-keys").decode()
        self.fingerprint = next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr"))

    def gpg(self, *words, **options):
        argv = ["gpg", "--homedir", self.home, "--batch", "--quiet", "--yes", "--pinentry-mode", "loopback", *words]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, **options).stdout

    def public(self):
        return self.gpg("--armor", "--export")

    def sign(self, folder):
        release = os.path.join(folder, "Release")
        self.gpg("--clearsign", "--output", os.path.join(folder, "InRelease"), release)
        self.gpg("--armor", "--detach-sign", "--output", release + ".gpg", release)


def index(folder, key):
    packages = subprocess.run(["apt-ftparchive", "packages", "."], cwd=folder, check=True, stdout=subprocess.PIPE).stdout
    with open(os.path.join(folder, "Packages"), "wb") as handle:
        handle.write(packages)
    options = ["-o", "APT::FTPArchive::Release::Origin=NVIDIA", "-o", "APT::FTPArchive::Release::Label=NVIDIA CUDA"]
    release = subprocess.run(["apt-ftparchive", *options, "release", "."], cwd=folder, check=True, stdout=subprocess.PIPE).stdout
    with open(os.path.join(folder, "Release"), "wb") as handle:
        handle.write(release)
    key.sign(folder)


def archives(folder):
    """Each folder of sources is one archive; the same content gives the same bytes, so that roles can know its checksum."""
    os.makedirs(folder)
    for source in sorted(glob.glob(os.path.join(HERE, "sources/*/"))):
        name = os.path.basename(source.rstrip("/"))
        # Stored, not deflated: zlib's output may change from version to version, and with it the checksum.
        with (
            open(os.path.join(folder, name + ".tar.gz"), "wb") as out,
            gzip.GzipFile("", "wb", 0, out, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
        ):
            archive.add(source, arcname=name, filter=_plain)

    with open(os.path.join(folder, "SHA256SUMS"), "w") as sums:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".tar.gz"):
                with open(os.path.join(folder, name), "rb") as handle:
                    sums.write("%s  %s\n" % (hashlib.sha256(handle.read()).hexdigest(), name))


def _plain(member):
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return None if "__pycache__" in member.name else member


def main():
    os.makedirs(os.path.dirname(TARGET), exist_ok=True)
    with open(TARGET + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make()


def make():
    mark = os.path.join(TARGET, ".inputs")
    wanted = inputs()
    if os.path.exists(mark):
        with open(mark) as handle:
            if handle.read() == wanted:
                return
    work = TARGET + ".new"
    shutil.rmtree(work, ignore_errors=True)
    places = [
        (CONTAINER_TOOLKIT, DEBIAN + UBUNTU, os.path.join(work, "libnvidia-container/stable/deb/amd64")),
        (DISTRIBUTION, DEBIAN, os.path.join(work, "debian")),
        (DISTRIBUTION, UBUNTU, os.path.join(work, "ubuntu")),
        *((CUDA, (name,), os.path.join(work, "compute/cuda/repos", name, "x86_64")) for name in DEBIAN + UBUNTU),
    ]
    made = {}
    key = Key(TARGET + "-key")
    try:
        packages = list(sets())
        for repository, distributions, folder in places:
            os.makedirs(folder)
            for number, package in enumerate(packages):
                for_here = not package.distributions or set(distributions) & set(package.distributions)
                if package.repository == repository and for_here:
                    if number in made:
                        os.link(made[number], os.path.join(folder, os.path.basename(made[number])))
                    else:
                        made[number] = build(package, folder)
            index(folder, key)
            if repository == CUDA:
                with open(os.path.join(folder, CUDA_KEYS[distributions[0]]), "wb") as handle:
                    handle.write(key.public())
        with open(os.path.join(work, CONTAINER_KEY), "wb") as handle:
            handle.write(key.public())
        with open(os.path.join(work, "fingerprint"), "w") as handle:
            handle.write(key.fingerprint)
    finally:
        # The agent would outlive this, and hold what it inherited.
        subprocess.run(["gpgconf", "--homedir", key.home, "--kill", "all"], check=False)
    archives(os.path.join(work, "sources"))
    with open(os.path.join(work, ".inputs"), "w") as handle:
        handle.write(wanted)
    # The folder itself stays: nodes may have it mounted.
    os.makedirs(TARGET, exist_ok=True)
    for name in os.listdir(TARGET):
        path = os.path.join(TARGET, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    for name in os.listdir(work):
        shutil.move(os.path.join(work, name), TARGET)
    os.rmdir(work)
    print("made %d packages in build/repository" % len(packages))


if __name__ == "__main__":
    main()
