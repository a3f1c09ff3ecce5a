#!/usr/bin/env bash
# Prove the Dockerfile on a Debian machine without a container engine: build it with buildah (chroot
# isolation, vfs storage) on a base made by debootstrap, then run what was built. Root's rights are
# needed; no port and no container store of the machine is touched. docs/docker.md says what is shown.
set -euo pipefail

usage() {
    cat <<END
usage: prove.sh [--work DIR] [--suite NAME] [--mirror URL] [--keep] [-- ARGUMENTS]
  --work DIR     make the working directory in DIR (default: TMPDIR or /tmp; about 3 GB)
  --suite NAME   the Debian release of the base image (default: bookworm)
  --mirror URL   where debootstrap gets packages (default: where this machine's apt gets them)
  --keep         leave the working directory, with the image, for a look at it
  ARGUMENTS      more for buildah build, say --build-arg EXTRAS=[uvloop]
END
}

authorities=/etc/ssl/certs/ca-certificates.crt
parent=${TMPDIR:-/tmp} suite=bookworm mirror='' keep=
while [ $# -gt 0 ]; do
    case $1 in
        --work) parent=${2:?--work needs a directory}; shift 2 ;;
        --suite) suite=${2:?--suite needs a name}; shift 2 ;;
        --mirror) mirror=${2:?--mirror needs an address}; shift 2 ;;
        --keep) keep=yes; shift ;;
        --) shift; break ;;
        -h | --help) usage; exit 0 ;;
        *) echo "prove.sh: unknown argument $1" >&2; usage >&2; exit 2 ;;
    esac
done
if [ "$(id -u)" -ne 0 ]; then
    echo 'prove.sh: must run as root (debootstrap and chroot need it)' >&2
    exit 1
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$here/../.." && pwd)
mkdir -p "$parent"
work=$(mktemp -d "$(cd "$parent" && pwd)/seriatim-image.XXXXXX")
image=localhost/seriatim:proof

say() { printf '\n=== %s\n' "$*"; }

# buildah with a store of its own below $work, deaf to what the machine has configured.
bah() {
    TMPDIR=$work/tmp BUILDAH_ISOLATION=chroot STORAGE_OPTS='' buildah --storage-driver vfs \
        --root "$work/store" --runroot "$work/run" "$@"
}

# An interrupted build leaves processes behind for a moment: those whose root is below $work.
end_stragglers() {
    local place
    for place in /proc/[0-9]*/root; do
        case $(readlink "$place" 2>/dev/null) in
            "$work"/*) kill -KILL "$(basename "${place%/root}")" 2>/dev/null || true ;;
        esac
    done
}

cleanup() {
    local status=$?
    trap - EXIT
    if [ -n "$keep" ]; then
        say "kept: $work (buildah --storage-driver vfs --root $work/store --runroot $work/run ...)"
        exit "$status"
    fi
    end_stragglers
    # A mount left below it would be emptied by rm: look first, and rather leave everything.
    if grep -F " $work/" /proc/self/mountinfo >&2; then
        echo "prove.sh: something is still mounted in $work; left as it is" >&2
        exit 1
    fi
    rm -rf --one-file-system "$work" 2>/dev/null || { sleep 2; rm -rf --one-file-system "$work"; }
    exit "$status"
}
trap cleanup EXIT
mkdir "$work/tmp"

install_needs() {
    local missing=() pair
    [ -e "$authorities" ] || missing+=(ca-certificates)
    for pair in buildah=buildah debootstrap=debootstrap ip=iproute2 pip=python3-pip \
        python3=python3 unshare=util-linux; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"
}

# The first archive that apt of this machine uses and that has the main component of the suite.
find_mirror() {
    # shellcheck disable=SC2016  # the $(...) are apt's own placeholders
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v suite="$suite" '$2 == suite && $3 == "main" && !seen { print $1; seen = 1 }'
}

make_base() {
    local container
    # Without an address debootstrap takes Debian's own.
    debootstrap --variant=minbase "$suite" "$work/base" ${mirror:+"$mirror"} >"$work/debootstrap.log" ||
        { tail -n 20 "$work/debootstrap.log" >&2; return 1; }
    # How this machine's apt reaches its archive: the base is thrown away with the proof. A minimal
    # base trusts no certificate yet, so build() shows it this machine's.
    {
        apt-config dump | grep -E '^Acquire::(https?|Check-)' || true
        echo 'Acquire::https::CAInfo "/mnt/machine/authorities";'
    } >"$work/base/etc/apt/apt.conf.d/90machine"
    rm -rf "$work"/base/var/cache/apt/archives/*.deb "$work"/base/var/lib/apt/lists/*
    container=$(bah from scratch)
    bah add --quiet "$container" "$work/base" / >/dev/null
    bah config --cmd /bin/bash "$container"
    bah commit --quiet --rm "$container" localhost/debian:proof >/dev/null
    rm -rf --one-file-system "$work/base"
}

build() {
    local path mounts=()
    python3 "$here/host_pip.py" "$work/pip.conf" >"$work/pip.mounts"
    while read -r path; do
        mounts+=(--volume "$path:ro")
    done <"$work/pip.mounts"
    mounts+=(--volume "$work/pip.conf:/etc/pip.conf:ro")
    mounts+=(--volume "$authorities:/mnt/machine/authorities:ro")
    # The Docker format: the OCI one has no place for a HEALTHCHECK.
    bah build --isolation chroot --format docker --pull-never --build-arg BASE=localhost/debian:proof \
        --build-arg "REVISION=$(git -C "$tree" rev-parse HEAD 2>/dev/null || true)" \
        "${mounts[@]}" "$@" --tag "$image" --file "$tree/Dockerfile" "$tree"
}

prove() {
    local container root
    container=$(bah from --pull-never "$image")
    root=$(bah mount "$container")
    bah inspect --type image "$image" >"$work/image.json"
    # A network of its own, so that the image's ports are free here; processes of its own, so that
    # none can outlive the proof.
    # shellcheck disable=SC2016  # for the inner shell
    unshare --net --mount-proc --fork --pid --kill-child \
        sh -c 'ip link set lo up && exec python3 "$@"' sh \
        "$here/prove_image.py" "$root" "$work/image.json"
    say "by buildah run too, its chroot isolation and the image's own user"
    bah run "$container" -- /opt/seriatim/bin/seriatim version
    bah umount "$container" >/dev/null
    bah rm "$container" >/dev/null
}

say "tools"
install_needs
buildah --version
debootstrap --version
[ -n "$mirror" ] || mirror=$(find_mirror)

say "base image: debootstrap --variant=minbase $suite"
make_base
say "image: buildah build, chroot isolation, vfs storage"
build "$@"
bah images
say "the image, run"
prove
say "PROVEN"
