#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pin.sh VERSION...: write k8s-VERSION/go.mod and go.sum, or with etcd-VERSION those of etcd.
# Needed only to add a version; the files are committed and build.sh builds what they pin.
#
# `go install k8s.io/kubernetes/...@vX` is refused, because its go.mod replaces the staging modules
# by folders of its own repository.  A module of ours may replace them by their published versions.
set -eu
cd "$(dirname "$0")"
export GOFLAGS=-mod=mod

cache=$(go env GOMODCACHE)/cache/download

pin() { # FOLDER MODULE VERSION PACKAGE...
    folder=$1 module=$2 version=$3
    shift 3
    echo "pin $folder"
    (cd / && go list -m "$module@$version" >/dev/null)
    theirs=$cache/$module/@v/$version.mod
    mkdir -p "$folder"
    {
        echo "// Written by pin.sh: what the end-to-end tests run, and exactly from which sources."
        echo "module deviceshare.example/e2e/$folder"
        echo
        sed -n 's/^go [0-9.]*$/&/p' "$theirs"
        echo
        printf 'tool (\n'
        printf '\t%s\n' "$@"
        printf ')\n\nrequire %s %s\n' "$module" "$version"
        staging=$(awk '$1 ~ /^k8s\.io\// && $2 == "v0.0.0" { print $1 }' "$theirs")
        if [ -n "$staging" ]; then
            printf '\nreplace (\n'
            for name in $staging; do
                printf '\t%s => %s v0.%s\n' "$name" "$name" "${version#v1.}"
            done
            printf ')\n'
        fi
    } >"$folder/go.mod"
    (cd "$folder" && go mod tidy -e)
}

for want; do
    case $want in
    etcd-*)
        # The root package of the server module is the etcd binary.
        pin "$want" go.etcd.io/etcd/server/v3 "v${want#etcd-}" go.etcd.io/etcd/server/v3
        ;;
    *)
        k=k8s.io/kubernetes/cmd
        pin "k8s-$want" k8s.io/kubernetes "v$want" $k/kube-apiserver $k/kube-controller-manager \
            $k/kube-scheduler $k/kubectl
        ;;
    esac
done
