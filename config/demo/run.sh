#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: start the extender with the demo cluster on 127.0.0.1:9876, schedule the cluster's
# pods as kube-scheduler would, and stay up until Ctrl-C.
set -u
build=${1:?usage: run.sh BUILD_DIR}
url=http://127.0.0.1:9876
config=$(dirname "$0")/extender.yaml
daemon=

stop() {
    trap '' INT TERM
    if [ -n "$daemon" ]; then
        kill -TERM "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
    fi
    exit "$1"
}
trap 'stop 0' INT TERM

answers() {
    curl -s -o /dev/null --noproxy '*' --max-time 2 "$url$1"
}

if answers /livez; then
    echo "run.sh: something already answers on $url; stop it first (port 9876 is busy)" >&2
    exit 1
fi

"$build/deviceshare-extender" --config "$config" &
daemon=$!

tries=0
until [ "$(curl -s --noproxy '*' --max-time 2 "$url/readyz")" = ok ]; do
    tries=$((tries + 1))
    if ! kill -0 "$daemon" 2>/dev/null; then
        wait "$daemon"
        status=$?
        echo "run.sh: the extender did not start; its last line above says why (is port 9876 busy?)" >&2
        exit "$status"
    fi
    if [ "$tries" -ge 300 ]; then
        echo "run.sh: the extender is not ready after 30 seconds" >&2
        stop 1
    fi
    sleep 0.1
done

echo
"$build/deviceshare-demo" --server "$url" || stop 1
echo
echo "Ready: try 'curl $url/debug/cache' or README's calls in a second terminal. Ctrl-C stops it."

wait "$daemon"
status=$?
# A signal that came during wait has run its trap; here the daemon ended by itself.
echo "run.sh: the extender ended with status $status" >&2
exit "$status"
