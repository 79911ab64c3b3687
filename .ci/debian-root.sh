# SPDX-License-Identifier: Apache-2.0
# Sourced: make_debian.  For who is root in mount and process namespaces of its own, with debootstrap.
# shellcheck shell=bash

# make_debian ROOT: a minimal Debian 12 in the new or empty folder ROOT, whose apt reaches the archives
# that this machine's apt reaches; /proc is mounted in it, and http_proxy exported if apt has a proxy.
# What debootstrap says is shown when it fails, and the shell ends.
make_debian() {
    local root=$1 suite=bookworm archives mirror proxy log
    # The mirror, the proxy and what else apt needs to reach them are those of this machine; one whose apt
    # has no lists, or is too old to name them, takes Debian's own mirror.
    # shellcheck disable=SC2016 # the words in $() are apt's
    archives=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Created-By: Packages' 2>/dev/null |
        awk -v suite="$suite" '$3 == "main" && ($2 == suite || $2 == suite "-updates" ||
            $2 == suite "-security") && !seen[$0]++' || true)
    mirror=$(awk -v suite="$suite" '$2 == suite { print $1; exit }' <<<"$archives")
    if [ -z "$mirror" ]; then
        mirror=http://deb.debian.org/debian
        archives="$mirror $suite main"
    fi
    proxy=$(apt-config shell proxy Acquire::http::Proxy)
    eval "$proxy" # sets proxy if apt has one
    if [ -n "$proxy" ] && [ "$proxy" != DIRECT ]; then export http_proxy="$proxy"; fi

    log=$root.log
    if ! debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        rm -f "$log"
        echo "debootstrap of $suite from $mirror failed" >&2
        exit 1
    fi
    rm -f "$log"
    awk '{ print "deb", $1, $2, $3 }' <<<"$archives" >"$root/etc/apt/sources.list"
    apt-config dump | awk '/^Acquire::(https?|Check-|Retries|ForceIPv)/' \
        >"$root/etc/apt/apt.conf.d/90machine"
    if [ -r /etc/ssl/certs/ca-certificates.crt ]; then
        cp /etc/ssl/certs/ca-certificates.crt "$root/etc/apt/machine-ca.crt"
        echo 'Acquire::https::CAInfo "/etc/apt/machine-ca.crt";' >>"$root/etc/apt/apt.conf.d/90machine"
    fi
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
}
