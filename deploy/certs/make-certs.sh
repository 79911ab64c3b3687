#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make-certs.sh [-i ADDRESS] [-n NAMESPACE] [-d DAYS] DIR: the certificates between kube-scheduler and
# the extender, in DIR.
#
#   ca.crt ca.key                  an authority for these two certificates and nothing else
#   server.crt server.key          the extender's, for the Service's names and its address
#   scheduler.crt scheduler.key    kube-scheduler's, CN deviceshare-scheduler (server.tls.allowedClients)
#   secrets.yaml                   the Secrets that deploy/base and deploy/overlays mount
#
#   -i ADDRESS    the Service's clusterIP (10.96.0.76), once for each IP family
#   -n NAMESPACE  of the Service (deviceshare-system)
#   -d DAYS       how long a certificate is valid (365); the authority 3650
#
# Run it again at any time: what is there and good stays as it is. A certificate is made anew when it
# ends within a third of DAYS, or does not name what is asked for. Then apply secrets.yaml again; both
# sides read renewed files by themselves. A new authority is another matter: kube-scheduler reads that
# only at its start. Keep ca.key away from the cluster.
set -eu
umask 077

client=deviceshare-scheduler
service=deviceshare-extender
namespace=deviceshare-system
days=365
addresses=

usage() {
    sed -n '3,18s/^# \{0,1\}//p' "$0"
}

fail() {
    echo "make-certs.sh: $1" >&2
    exit 1
}

while getopts i:n:d:h option; do
    case $option in
    i) addresses="$addresses $OPTARG" ;;
    n) namespace=$OPTARG ;;
    d) days=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || { usage >&2 && exit 2; }
case $days in '' | *[!0-9]* | 0*) fail "-d $days is not a number of days" ;; esac
case $namespace in '' | *[!a-z0-9-]*) fail "-n $namespace is not the name of a namespace" ;; esac
command -v openssl >/dev/null || fail "the openssl command is missing"

mkdir -p "$1"
cd "$1"
scratch=$(mktemp -d ./.making.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

quietly() {
    "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "$1 $2 failed"; }
}

# What openssl is to put into a certificate of this kind.
cat >"$scratch/openssl.cnf" <<EOF
[req]
distinguished_name = subject
[subject]
[ca]
basicConstraints = critical,CA:true,pathlen:0
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
EOF

# issue STEM KIND SUBJECT DAYS [MORE...]: key and certificate appear together, or not at all.
issue() {
    stem=$1 kind=$2 subject=$3 valid=$4
    shift 4
    quietly openssl req -x509 -new -config "$scratch/openssl.cnf" -extensions "$kind" -sha256 \
        -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days "$valid" -subj "$subject" \
        -keyout "$scratch/key" -out "$scratch/crt" "$@"
    mv "$scratch/key" "$stem.key"
    mv "$scratch/crt" "$stem.crt"
    echo "$stem.crt: made, valid for $valid days"
}

# signed_for_all CRT: the authority has signed it, for every one of $names.
signed_for_all() {
    openssl verify -CAfile ca.crt "$1" || return 1
    for name in $names; do
        case $name in
        IP:*) openssl verify -CAfile ca.crt -verify_ip "${name#IP:}" "$1" || return 1 ;;
        DNS:*) openssl verify -CAfile ca.crt -verify_hostname "${name#DNS:}" "$1" || return 1 ;;
        esac
    done
} >/dev/null 2>&1

# good STEM COMMON_NAME: it belongs to its key and to the authority, names what it should, and lasts for a
# third of DAYS at least.
good() {
    [ -s "$1.crt" ] && [ -s "$1.key" ] &&
        [ "$(openssl x509 -in "$1.crt" -noout -pubkey)" = "$(openssl pkey -in "$1.key" -pubout)" ] &&
        openssl x509 -in "$1.crt" -noout -checkend $((days * 86400 / 3)) >/dev/null &&
        [ "$(openssl x509 -in "$1.crt" -noout -subject -nameopt RFC2253)" = "subject=CN=$2" ] &&
        signed_for_all "$1.crt"
}

# keep_or_issue STEM KIND COMMON_NAME: a certificate for $names.
keep_or_issue() {
    if good "$1" "$3"; then
        echo "$1.crt: kept"
    elif [ -n "$names" ]; then
        issue "$1" "$2" "/CN=$3" "$days" -CA ca.crt -CAkey ca.key \
            -addext "subjectAltName=$(echo "$names" | tr ' ' ,)"
    else
        issue "$1" "$2" "/CN=$3" "$days" -CA ca.crt -CAkey ca.key
    fi
}

if [ ! -s ca.crt ] && [ ! -s ca.key ]; then
    issue ca ca /CN=deviceshare-extender-ca 3650
elif [ ! -s ca.crt ] || [ ! -s ca.key ]; then
    fail "one of ca.crt and ca.key is missing in $1: bring it back, or begin in an empty folder"
else
    openssl x509 -in ca.crt -noout -checkend $((days * 86400)) >/dev/null ||
        fail "ca.crt ends too soon to sign for $days days: begin in an empty folder"
    echo "ca.crt: kept"
fi

host=$service.$namespace.svc
names="DNS:$host DNS:$host.cluster.local DNS:$service.$namespace DNS:$service"
for address in ${addresses:-10.96.0.76}; do
    names="$names IP:$address"
done
keep_or_issue server server "$host"
names=
keep_or_issue scheduler client "$client"

# secret NAME STEM: the keys are those of type kubernetes.io/tls, and the authority to check peers by.
secret() {
    cat <<EOF
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: $1
  namespace: $namespace
data:
  tls.crt: $(openssl base64 -A -in "$2.crt")
  tls.key: $(openssl base64 -A -in "$2.key")
  ca.crt: $(openssl base64 -A -in ca.crt)
EOF
}

{
    secret deviceshare-extender-tls server
    echo ---
    # For a kube-scheduler that is a Pod; a static Pod takes the files.
    secret deviceshare-scheduler-tls scheduler
} >"$scratch/secrets.yaml"
mv "$scratch/secrets.yaml" secrets.yaml
echo "secrets.yaml: written"
