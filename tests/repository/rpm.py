# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make build/repository-redhat: what build.py makes for Debian, as rpms in repositories that dnf really verifies.

Most packages are those of sets/*.py under RHEL's names; what differs more (the driver, DKMS, the kernel's headers) is in rpmsets/*.py.
NVIDIA signs the packages of its CUDA repository, and the metadata of the one for containers; so it is here.
"""

import fcntl
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
from package import CONTAINER_TOOLKIT, CUDA, DISTRIBUTION, ROOT, lay_out, write  # noqa: E402

import build  # noqa: E402

TARGET = os.path.join(ROOT, "build/repository-redhat")
FOLDERS = {
    CUDA: "compute/cuda/repos/rhel9/x86_64",
    CONTAINER_TOOLKIT: "libnvidia-container/stable/rpm/x86_64",
    DISTRIBUTION: "distribution",
}
CUDA_KEY = FOLDERS[CUDA] + "/D42D0685.pub"
# The kernel of the node (see kernel.c): a name that is taken apart as RHEL's are.
KERNEL = ("5.14.0", "570.12.1.el9_6", "x86_64")
# Of sets/*.py: the driver is another set of packages on RHEL, and the kernel is another one.
OTHERWISE = ("driver", "driver_ubuntu", "kernel", "tools")
NAMES = (
    (r"^libnccl2$", "libnccl"),
    (r"^libnccl-dev$", "libnccl-devel"),
    (r"^(cuda-cudart|cuda-driver|libcublas)-dev-", r"\1-devel-"),
    (r"^nvidia-fabricmanager-\d+$", "nvidia-fabric-manager"),
)
# A script of dpkg's finds in $1 what it expects there.
# In RHEL 9's repository these are in streams of a module, by branch.
MODULAR = r"(kmod-nvidia|nvidia-(driver|kmod-common|modprobe|persistenced|fabric|imex)|libnvidia-(ml|cfg|nscq))"
SCRIPTS = {
    "postinst": ("post", "set -- configure\n"),
    "prerm": ("preun", 'if [ "$1" = 0 ]; then set -- remove; else set -- upgrade; fi\n'),
    "postrm": ("postun", 'if [ "$1" = 0 ]; then set -- remove; else set -- upgrade; fi\n'),
}
SPEC = """\
Name: {name}
Epoch: {epoch}
Version: {version}
Release: {release}
Summary: simulated stand-in for {name}
License: GPL-3.0-or-later
AutoReqProv: no
{fields}
%description
Made by the tests of kentino.gpu; no GPU is used.
%files
%defattr(-,root,root,-)
{files}
{scripts}
"""


def named(name):
    for pattern, new in NAMES:
        name = re.sub(pattern, new, name)
    return name


def relations(text):
    """C(a (= 1), b) as C(a = 1, b)."""
    words = (re.match(r"(\S+)(?: \((\S+) (\S+)\))?", word.strip()).groups() for word in text.split(","))
    return ", ".join(" ".join(filter(None, (named(name), sign, version))) for name, sign, version in words)


def as_rpm(package):
    """A Debian package of the sets with RHEL's names, relations and places."""
    fields = {{"Depends": "Requires"}.get(key, key): relations(value) for key, value in package.fields.items() if key != "Replaces"}

    def place(path):
        path = path.replace("/usr/lib/x86_64-linux-gnu/", "/usr/lib64/")
        return "/usr" + path if path.startswith("/lib/") else path

    def places(mapping):
        return {place(path): value for path, value in mapping.items()}

    return replace(
        package,
        name=named(package.name),
        fields=fields,
        files=places(package.files),
        links=places(package.links),
        copies=places(package.copies),
        scripts={SCRIPTS[name][0]: SCRIPTS[name][1] + script for name, script in package.scripts.items()},
        architecture={"amd64": "x86_64", "all": "noarch"}[package.architecture],
    )


def packages():
    for path in sorted(glob.glob(os.path.join(HERE, "sets/*.py"))):
        module = build.load(path)
        if os.path.basename(path)[:-3] not in OTHERWISE:
            yield from (as_rpm(package) for package in module.PACKAGES if package.repository != DISTRIBUTION)
    for path in sorted(glob.glob(os.path.join(HERE, "rpmsets/*.py"))):
        yield from build.load(path).PACKAGES


def nevra(package):
    epoch, _colon, rest = package.version.rpartition(":")
    version, _dash, release = rest.partition("-")
    return package.name, epoch or "0", version, release or "1", package.architecture


def make_rpm(package, folder, work):
    name, epoch, version, release, architecture = nevra(package)
    tree = os.path.join(work, "tree")
    os.makedirs(tree)
    lay_out(package, tree)
    files = [
        ("%config(noreplace) " if path in package.conffiles else "") + path for path in (*package.files, *package.copies, *package.links)
    ]
    fields = "".join("%s: %s\n" % item for item in package.fields.items()) + ("BuildArch: noarch\n" if architecture == "noarch" else "")
    scripts = "".join("%%%s\n%s\n" % item for item in package.scripts.items())
    spec = SPEC.format(
        name=name, epoch=epoch, version=version, release=release, fields=fields, files="\n".join(files), scripts=scripts
    )  # fmt: skip
    write(os.path.join(work, "spec"), spec, 0o644)
    defines = {"_topdir": work, "_rpmdir": folder, "buildroot": tree, "_build_name_fmt": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm"}
    defines.update(_binary_payload="w0.gzdio", __os_install_post="%{nil}", _build_id_links="none", debug_package="%{nil}")
    defines.update(_use_internal_dependency_generator="0", clamp_mtime_to_source_date_epoch="0")
    argv = ["rpmbuild", "--quiet", "-bb", "--noclean", "--buildroot", tree, "--target", "x86_64"]
    argv += [word for key, value in defines.items() if key != "buildroot" for word in ("--define", "%s %s" % (key, value))]
    done = subprocess.run([*argv, os.path.join(work, "spec")], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit("%s\n%s\n%s%s" % (" ".join(argv), spec, done.stdout, done.stderr))
    shutil.rmtree(tree)


def modules(made):
    """The streams of NVIDIA's repository for RHEL 9: each branch with open and with proprietary modules, and the newest of both."""
    driver = [package for package in made if re.match(MODULAR, package.name)]
    branches = sorted({nevra(package)[2].split(".")[0] for package in driver})
    newest = branches[-1]
    text = (
        "---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: nvidia-driver\n  stream: latest-dkms\n"
        "  profiles:\n    latest-dkms: [default]\n...\n"
    )
    streams = [(branch + kind, branch, kind) for branch in branches for kind in ("-open", "-dkms")]
    streams += [("open-dkms", newest, "-open"), ("latest-dkms", newest, "-dkms")]
    for stream, branch, kind in streams:
        other = "kmod-nvidia-latest-dkms" if kind == "-open" else "kmod-nvidia-open-dkms"
        text += (
            '---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n  stream: "%s"\n  version: 20260101000000\n'
            "  context: cafebabe\n  arch: x86_64\n  summary: simulated\n  description: simulated\n  license:\n    module: [MIT]\n"
            "  profiles:\n    default:\n      rpms: [nvidia-driver-cuda]\n  artifacts:\n    rpms:\n" % stream
        )
        for package in driver:
            name, epoch, version, release, architecture = nevra(package)
            if name != other and version.startswith(branch + "."):
                text += "      - %s-%s:%s-%s.%s\n" % (name, epoch, version, release, architecture)
        text += "...\n"
    return text


def wheel(folder):
    """An index for pip with NVIDIA's bindings, which RHEL has no package of."""
    version = re.search(r'nvidia-ml-py==([0-9.]+)|_pynvml_version: "?([0-9.]+)', _read(ROOT, "roles/node_tools/defaults/main.yml"))
    version = next(filter(None, version.groups()))
    os.makedirs(folder)
    bindings = build.load(os.path.join(HERE, "sets/build.py")).bindings()
    info = "nvidia_ml_py-%s.dist-info/" % version
    with zipfile.ZipFile(os.path.join(folder, "nvidia_ml_py-%s-py3-none-any.whl" % version), "w") as archive:
        archive.write(bindings, "pynvml.py")
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: nvidia-ml-py\nVersion: %s\n" % version)
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(info + "RECORD", "")


def _read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as handle:
        return handle.read()


def make(target, key, distribution):
    made = list(packages())
    work = target + "/work"
    for repository, folder in FOLDERS.items():
        os.makedirs(os.path.join(target, folder))
        for package in made:
            if package.repository == repository:
                make_rpm(package, os.path.join(target, folder), work)
    shutil.rmtree(work)
    for repository, signer in ((CUDA, key), (DISTRIBUTION, distribution)):
        argv = ["rpmsign", "--define", "_gpg_name " + signer.fingerprint, "--define", "_gpg_path " + signer.home]
        argv += ["--define", "__gpg /usr/bin/gpg", "--addsign", *glob.glob(os.path.join(target, FOLDERS[repository], "*.rpm"))]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for repository, folder in FOLDERS.items():
        path = os.path.join(target, folder)
        subprocess.run(["createrepo_c", "--quiet", "--no-database", path], check=True)
        if repository == CUDA:
            write(path + "/modules.yaml", modules(made), 0o644)
            subprocess.run(
                ["modifyrepo_c", "--mdtype=modules", path + "/modules.yaml", path + "/repodata"], check=True, stdout=subprocess.DEVNULL
            )
        key.gpg("--armor", "--detach-sign", "--output", path + "/repodata/repomd.xml.asc", path + "/repodata/repomd.xml")
    for path, owner in ((CUDA_KEY, key), (build.CONTAINER_KEY, key), ("distribution.pub", distribution)):
        write(os.path.join(target, path), owner.public().decode(), 0o644)
    build.archives(os.path.join(target, "sources"))
    wheel(os.path.join(target, "pip/nvidia-ml-py"))
    argv = ["cc", "-O1", "-shared", "-fPIC", '-DRELEASE="%s"' % "{}-{}.{}".format(*KERNEL), "-o", target + "/kernel.so", HERE + "/kernel.c"]
    subprocess.run(argv, check=True)
    print("made %d packages in build/repository-redhat" % len(made))


def main():
    wanted = hashlib.sha256((build.inputs() + _read(ROOT, "roles/node_tools/defaults/main.yml")).encode()).hexdigest()
    mark = os.path.join(TARGET, ".inputs")
    with open(TARGET + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(mark) and _read(mark) == wanted:
            return
        shutil.rmtree(TARGET + ".new", ignore_errors=True)
        keys = [build.Key(build.TARGET + "-key"), build.Key(TARGET + "-key")]
        try:
            make(TARGET + ".new", *keys)
        finally:
            for key in keys:
                subprocess.run(["gpgconf", "--homedir", key.home, "--kill", "all"], check=False)
        # The folder itself stays: nodes may have it mounted.
        os.makedirs(TARGET, exist_ok=True)
        for name in os.listdir(TARGET):
            path = os.path.join(TARGET, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        for name in os.listdir(TARGET + ".new"):
            shutil.move(os.path.join(TARGET + ".new", name), TARGET)
        os.rmdir(TARGET + ".new")
        write(mark, wanted, 0o644)


if __name__ == "__main__":
    main()
