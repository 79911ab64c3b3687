#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check.sh [-k FOLDER]: build deploy/Dockerfile without a container engine and look at what comes out.
#
# Each line of the Dockerfile is carried out as an engine would, in a minimal Debian root instead of
# the debian:bookworm-slim image. The context is what git tracks, as it is in the working tree, less
# what Dockerfile.dockerignore leaves out. Needs root, debootstrap and a Debian mirror. -k keeps the
# final image's files in FOLDER.
#
# It all happens in mount and process namespaces of its own; nothing is left behind.
set -euo pipefail
cd "$(dirname "$0")/../.."

. .ci/debian-root.sh

dockerfile=deploy/Dockerfile
suite=bookworm
size_limit_kib=24576

die() {
    echo "check.sh: $*" >&2
    exit 1
}

if [ -z "${IMAGE_SCRATCH:-}" ]; then
    keep=
    [ "${1:-}" != -k ] || keep=$(realpath -m "${2:?-k FOLDER}")
    [ "$(id -u)" -eq 0 ] || die "only root can make and enter a Debian root"
    unshare --mount --pid --fork true 2>/dev/null || die "namespaces are not permitted here"
    .ci/deps debootstrap
    IMAGE_SCRATCH=$(mktemp -d -p "${TMPDIR:-/var/tmp}" deviceshare-image.XXXXXX)
    trap 'rm -rf --one-file-system "$IMAGE_SCRATCH"' EXIT
    trap 'exit 130' INT TERM HUP
    export IMAGE_SCRATCH
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0"
    [ -z "$keep" ] || cp -a "$IMAGE_SCRATCH/final/." "$keep"
    exit
fi
scratch=$IMAGE_SCRATCH

# ---- the context --------------------------------------------------------------------------------

make_context() {
    local pattern allowed=()
    while read -r pattern; do
        case $pattern in
        '' | '#'* | '*') ;;
        '!'*) allowed+=("${pattern#!}") ;;
        *) die "$dockerfile.dockerignore: cannot read $pattern" ;;
        esac
    done <"$dockerfile.dockerignore"
    mkdir "$scratch/context"
    # Files that are new and not yet added count too: an engine would see them.
    git -c safe.directory='*' ls-files -z --cached --others --exclude-standard -- "${allowed[@]}" |
        while IFS= read -rd '' file; do
            [ ! -e "$file" ] || cp --parents -p "$file" "$scratch/context"
        done
}

# ---- the Dockerfile, line by line ---------------------------------------------------------------

# Comments go, continued lines become one.
instructions() {
    awk '/^[ \t]*#/ { next }
         { line = line $0 }
         sub(/\\[ \t]*$/, "", line) { next }
         line ~ /[^ \t]/ { print line }
         { line = "" }
         END { if (line != "") { print "a line is continued past the end" >"/dev/stderr"; exit 1 } }' \
        "$dockerfile"
}

declare -A stages=() # name -> root
root='' workdir=/ user='' entrypoint='' arguments=() count=0

begin_stage() { # IMAGE [AS NAME]
    root=$scratch/stage-$count
    count=$((count + 1)) workdir=/ user='' entrypoint='' arguments=()
    case $1 in
    "debian:$suite-slim") make_debian "$root" ;;
    scratch) mkdir "$root" ;;
    *) die "no way to begin from $1" ;;
    esac
    if [ "${2:-}" = AS ]; then stages[$3]=$root; fi
}

run() { # COMMAND
    echo "    $1" | cut -c 1-110
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} "${arguments[@]}" \
        chroot "$root" /bin/sh -c "cd $workdir && $1" >"$scratch/log" 2>&1 </dev/null ||
        { tail -n 40 "$scratch/log" >&2; die "failed: $1"; }
}

copy() { # [--from=STAGE] SOURCE... TARGET
    local from=$scratch/context preserve=mode,timestamps,links target source
    if [[ $1 = --from=* ]]; then
        from=${stages[${1#--from=}]:?no stage of this name} preserve=all
        shift
    fi
    target=${*: -1}
    [[ $target = /* ]] || target=${workdir%/}/${target#./}
    mkdir -p "$root$target"
    for source in "${@:1:$#-1}"; do
        [ -e "$from/$source" ] || die "COPY: there is no $source"
        # Of a folder, its content; a file keeps its name, the target being a folder.
        if [ -d "$from/$source" ]; then source=$source/.; else [[ $target = */ ]] || die "COPY: $*"; fi
        # What comes from the context belongs to root, who runs this.
        cp -dR --preserve="$preserve" "$from/$source" "$root$target"
    done
}

build() {
    local word rest words
    while read -r word rest; do
        read -ra words <<<"$rest"
        case $word in
        FROM) begin_stage "${words[@]}" ;;
        ARG) [[ $rest = *=* ]] && arguments+=("$rest") ;;
        RUN) run "$rest" ;;
        WORKDIR) workdir=$rest && mkdir -p "$root$workdir" ;;
        COPY) copy "${words[@]}" ;;
        USER) user=$rest ;;
        ENTRYPOINT) entrypoint=$(sed -n 's/^\["\([^"]*\)"\]$/\1/p' <<<"$rest") ;;
        EXPOSE | LABEL) ;;
        *) die "$dockerfile: cannot carry out $word" ;;
        esac
    done < <(instructions || echo 'SYNTAX error')
}

# ---- what came out ------------------------------------------------------------------------------

passed=0 failed=0

# expect TEXT COMMAND...: it succeeds, and says nothing.
expect() {
    local text=$1 said
    shift
    if said=$("$@" 2>&1) && [ -z "$said" ]; then
        passed=$((passed + 1))
        echo "ok      $text"
    else
        failed=$((failed + 1))
        echo "FAILED  $text"
        printf '    %s\n' "${said//$'\n'/$'\n'    }"
    fi
}

# As a container engine would: the image's user, no groups, a root that cannot be written. Takes the place
# of the shell that calls it, which is a subshell always.
enter() { # COMMAND...
    exec chroot --userspec="$user" --groups= "$scratch/running" "$@"
}

small_enough() {
    [ "$size_kib" -le "$size_limit_kib" ]
}

numeric_user() {
    [[ $user =~ ^[1-9][0-9]*:[1-9][0-9]*$ ]]
}

libraries_found() {
    local file
    find "$root" -name '*.so*' -type f ! -name 'ld-linux*' -printf '/%P\n' | while read -r file; do
        chroot "$root" "$loader" --list "$file"
    done | grep 'not found' || true
    chroot "$root" "$loader" --list "$entrypoint" | grep 'not found' || true
}

# What can be started: the daemon, and the loader, which is no way to anything else in here.
only_programs() {
    find "$root" -type f -perm /111 -printf '/%P\n' | grep -vxF -e "$entrypoint" -e "$loader" || true
}

no_shell() {
    find "$root" \( -name '*sh' -o -name 'busybox*' -o -name 'perl*' -o -name 'apt*' \
        -o -name 'dpkg-*' \) -printf '/%P\n'
}

nothing_odd() {
    find "$root" ! -type l \( -perm /6000 -o -perm /022 -o ! -uid 0 -o ! -gid 0 \) -printf '/%P %M %U:%G\n'
    find "$root" -type b -o -type c -o -type p -o -type s
    find "$root" -xtype l
}

licences_there() {
    local package
    find "$root/var/lib/dpkg/status.d" -type f -printf '%f\n' | while read -r package; do
        [ -s "$root/usr/share/doc/$package/copyright" ] || echo "$package: no licence"
    done
}

prepare_run() {
    cp -a "$root" "$scratch/running"
    mkdir -p "$scratch/running/etc/deviceshare"
    cp -r config/demo/cluster deploy/base/extender.yaml "$scratch/running/etc/deviceshare/"
    mount --bind "$scratch/running" "$scratch/running"
    mount -o remount,bind,ro "$scratch/running"
}

starts() {
    local version
    version=$(enter "$entrypoint" --version)
    [[ $version = "deviceshare-extender "* ]] || echo "$version"
    enter "$entrypoint" --validate-config --config /etc/deviceshare/extender.yaml |
        grep -v '^the configuration is valid$' || true
}

serves_and_stops() {
    local pid port status
    enter "$entrypoint" --port 0 --embedded-manifests /etc/deviceshare/cluster >"$scratch/serve" 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        port=$(sed -n 's/.*"Listening".* port=\([0-9]*\).*/\1/p' "$scratch/serve")
        [ -z "$port" ] || break
        sleep 0.1
    done
    [ "$(curl -s --noproxy '*' --max-time 5 "http://127.0.0.1:${port:-1}/readyz")" = ok ] ||
        cat "$scratch/serve"
    grep -x 'Uid:.*65532' "/proc/$pid/status" >/dev/null || echo "runs as another user"
    kill -TERM "$pid"
    wait "$pid" || { status=$?; echo "exit status $status"; cat "$scratch/serve"; }
}

make_context
build
[ -n "$entrypoint" ] || die "$dockerfile has no ENTRYPOINT of one word"
loader=$(find "$root" -name 'ld-linux*' -printf '/%P\n')
size_kib=$(du -sk --apparent-size "$root" | cut -f 1)
ln -s "$root" "$scratch/final"

echo "The image has $(find "$root" -type f | wc -l) files, $((size_kib / 1024)).$((size_kib % 1024 * 10 / 1024)) MiB:"
expect "not more than $((size_limit_kib / 1024)) MiB" small_enough
expect "its user is a number and not root's" numeric_user
expect "every library finds its own" libraries_found
expect "nothing can be started but the daemon" only_programs
expect "no shell, no package manager" no_shell
expect "owned by root, writable by nobody else, no setuid, no devices, no loose links" nothing_odd
expect "each package's licence is there" licences_there
prepare_run
expect "starts in a root that is read-only, and takes deploy/base/extender.yaml" starts
expect "serves as user $user, and stops when it is told to" serves_and_stops
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
