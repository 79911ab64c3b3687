#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gather.sh PROGRAM ROOT: lay out in ROOT what PROGRAM needs to run, on Debian. Started by
# deploy/Dockerfile.
set -eu
program=$1 root=$2

put() {
    install -D -m "$1" "$2" "$root$3"
}

rm -rf "$root"
put 755 "$program" "/usr/sbin/${program##*/}"

# Each library under the name that the loader looks for; the loader under the name in the program.
libraries=$(ldd "$program" | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }')
for library in $libraries; do
    mode=644
    case $library in */ld-linux*) mode=755 ;; esac
    put "$mode" "$library" "$library"
done

# dpkg may know a file by its place before /lib became a link to /usr/lib.
packages=$(for library in $libraries; do
    file=$(readlink -f "$library")
    dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "${file#/usr}"
done)

# For each package that a file came from: its licence, and its entry in dpkg's table in the form that
# scanners for known weaknesses look for where there is no dpkg.
mkdir -p "$root/var/lib/dpkg/status.d"
for package in $(echo "$packages" | sed 's/:.*//' | sort -u); do
    put 644 "/usr/share/doc/$package/copyright" "/usr/share/doc/$package/copyright"
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
done

mkdir -p "$root/etc"
echo 'nonroot:x:65532:65532::/nonexistent:/sbin/nologin' >"$root/etc/passwd"
echo 'nonroot:x:65532:' >"$root/etc/group"
# The names of kubeconfigs, in the order that everybody expects.
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
put 644 /etc/os-release /etc/os-release
