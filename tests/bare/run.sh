#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Make a minimal Debian 12 root with nothing in it but git and make, clone the committed tree there
# and do what README tells a newcomer to do (newcomer.sh).  Started by `make test-bare`.
#
# All of it runs in mount and process namespaces of its own: whatever happens, no mount and no
# process outlives this script, and the root itself is removed by the trap.
set -euo pipefail

suite=bookworm

if [ "$(id -u)" -ne 0 ]; then
    echo "make test-bare: only root can make and enter a Debian root; try: sudo make test-bare" >&2
    exit 1
fi
if ! unshare --mount --pid --fork true 2>/dev/null; then
    echo "make test-bare: namespaces are not permitted here (in a container, run it privileged)" >&2
    exit 1
fi

if [ -z "${BARE_ROOT:-}" ]; then
    # The repository may belong to another user than root; git is to read it all the same.
    if ! git -c safe.directory='*' rev-parse -q --verify HEAD >/dev/null; then
        echo "make test-bare: there is no commit to clone" >&2
        exit 1
    fi
    .ci/deps debootstrap
    BARE_ROOT=$(mktemp -d -p "${TMPDIR:-/var/tmp}" deviceshare-bare.XXXXXX)
    trap 'rm -rf --one-file-system "$BARE_ROOT"' EXIT
    trap 'exit 130' INT TERM HUP
    export BARE_ROOT
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0"
    exit
fi

root=$BARE_ROOT

# The mirror, the proxy and what else apt needs to reach them are those of this machine.
# shellcheck disable=SC2016 # the words in $() are apt's
archives=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' 2>/dev/null |
    awk -v suite="$suite" '$3 == "main" && ($2 == suite || index($2, suite "-") == 1 &&
        $2 ~ /-(updates|security)$/) && !seen[$0]++' || true)
mirror=$(awk -v suite="$suite" '$2 == suite { print $1; exit }' <<<"$archives")
if [ -z "$mirror" ]; then
    mirror=http://deb.debian.org/debian
    archives="$mirror $suite main"
fi
settings=$(apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)' || true)
proxy=$(apt-config shell proxy Acquire::http::Proxy)
eval "$proxy" # sets proxy if apt has one
if [ -n "${proxy:-}" ] && [ "$proxy" != DIRECT ]; then
    export http_proxy="$proxy"
fi

start=$SECONDS
echo "Making a minimal Debian ($suite from $mirror) ..."
if ! debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1; then
    tail -n 30 "$root.log" "$root/debootstrap/debootstrap.log" 2>/dev/null >&2 || true
    rm -f "$root.log"
    exit 1
fi
rm -f "$root.log"
echo "... in $((SECONDS - start)) s"

rm -f "$root/etc/apt/sources.list"
awk '{ print "deb", $1, $2, $3 }' <<<"$archives" >"$root/etc/apt/sources.list"
printf '%s\n' "$settings" >"$root/etc/apt/apt.conf.d/90machine"
if [ -r /etc/ssl/certs/ca-certificates.crt ]; then
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/apt/machine-ca.crt"
    echo 'Acquire::https::CAInfo "/etc/apt/machine-ca.crt";' >>"$root/etc/apt/apt.conf.d/90machine"
fi
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"

printf '[safe]\n\tdirectory = *\n' >"$root/gitconfig"
GIT_CONFIG_GLOBAL=$root/gitconfig git clone -q --bare . "$root/srv/deviceshare-extender.git"
rm "$root/gitconfig"
install -m 755 tests/bare/newcomer.sh "$root/newcomer.sh"

kept=()
for name in http_proxy https_proxy no_proxy HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || kept+=("$name=${!name}")
done
env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb "${kept[@]}" \
    chroot "$root" /newcomer.sh </dev/null
