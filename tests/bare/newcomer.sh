#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a newcomer does on a fresh machine that has only git and make.  Started by run.sh inside a
# minimal Debian root, with nothing in the environment.
set -u
set -m # jobs get process groups of their own and, unlike without it, do not ignore SIGINT
passed=0 failed=0

# result STATUS TEXT LOG: note whether a command succeeded; show the log's end if not.  The status is
# an argument because a $(...) in TEXT would replace $? before the function could read it.
result() {
    local status=$1
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok      $2"
    else
        failed=$((failed + 1))
        echo "FAILED  $2 (status $status)"
        tail -n 60 "$3" | sed 's/^/    /'
    fi
    return "$status"
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

cd /root || exit
{
    apt-get -q update &&
        DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends git make
} >/apt.log 2>&1
result $? "apt-get install git make" /apt.log || finish

git clone -q /srv/deviceshare-extender.git >/clone.log 2>&1 && cd deviceshare-extender
result $? "git clone" /clone.log || finish

start=$SECONDS
make test >/test.log 2>&1
result $? "make test: $(grep -E '^[0-9]+ passed, [0-9]+ failed$' /test.log | tail -n 1)" /test.log
echo "        in $((SECONDS - start)) s, with the installation of what it needs"

if [ -e /root/deviceshare-extender/config/demo/run.sh ]; then
    start=$SECONDS
    make run >/run.log 2>&1 &
    pid=$!
    while ! grep -q '^Ready:' /run.log && kill -0 "$pid" 2>/dev/null &&
        [ "$((SECONDS - start))" -lt 600 ]; do
        sleep 0.2
    done
    grep -q '^Ready:' /run.log
    result $? "make run: ready after $((SECONDS - start)) s" /run.log

    # Ctrl-C, as a terminal sends it: to the whole process group.  make itself dies of it (130), the
    # recipe must not fail, and nothing may stay behind.
    kill -INT -- "-$pid" 2>/dev/null
    start=$SECONDS
    while kill -0 -- "-$pid" 2>/dev/null && [ "$((SECONDS - start))" -lt 30 ]; do
        sleep 0.2
    done
    if kill -KILL -- "-$pid" 2>/dev/null; then false; else true; fi
    result $? "make run: Ctrl-C stops it within 30 s" /run.log
    wait "$pid"
    status=$?
    { [ "$status" -eq 0 ] || [ "$status" -eq 130 ]; } && ! grep -E '\*\*\*.*Error' /run.log
    result $? "make run: ends without an error ($status)" /run.log
    if pgrep -a '^deviceshare-' >/left.log; then false; else true; fi
    result $? "make run: leaves no process behind" /left.log
fi

(
    set -e
    make install DESTDIR=/tmp/image
    /tmp/image/usr/local/sbin/deviceshare-extender --version
    make uninstall DESTDIR=/tmp/image
    [ -z "$(find /tmp/image -type f)" ] || { find /tmp/image -type f; false; }
) >/install.log 2>&1
result $? "make install, make uninstall" /install.log

[ -z "$(git status --porcelain)" ] || { git status --porcelain >/status.log; false; }
result $? "the working tree is as it was cloned" /status.log

finish
