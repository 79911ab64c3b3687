#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Make a minimal Debian 12 root with nothing in it but git and make, clone the committed tree there
# and do what README tells a newcomer to do (newcomer.sh).  Started by `make test-bare`.
#
# All of it runs in mount and process namespaces of its own: whatever happens, no mount and no
# process outlives this script, and the root itself is removed by the trap.
set -euo pipefail

. .ci/debian-root.sh

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

# A mount of its own, as every machine's root is: without one, no mount in it can be made private.
mount --bind "$root" "$root"
start=$SECONDS
echo "Making a minimal Debian ..."
make_debian "$root"
echo "... in $((SECONDS - start)) s"
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
