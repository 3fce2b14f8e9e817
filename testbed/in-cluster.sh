#!/bin/sh
# Runs one of the testbed's client programs against the testbed's cluster:  in-cluster.sh kubectl get nodes
#
# The API server listens in a network namespace that the host has no way into, so the client goes there.
# With CLUSTER=current it talks to the cluster of the caller's own kubeconfig instead, in the caller's own network.
set -eu
program=$1
shift
root=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
ours=$root/.testbed/bin/$program
# Where kubectl finds our plugin: kubectl foreshard status
PATH=$root/target/debug:$PATH

if [ "${CLUSTER:-testbed}" = current ]; then
    # The caller's own program, if there is one besides the wrapper that may have called us.
    path=$(printf %s "$PATH" | tr ':' '\n' | grep -vxF -e "$root/bin" -e ./bin -e bin | paste -sd: -)
    if theirs=$(PATH=$path command -v "$program"); then
        exec "$theirs" "$@"
    elif [ -x "$ours" ]; then
        exec "$ours" "$@"
    fi
    echo "$program: not installed, and the testbed has not built one yet: run \`testbed build\`" >&2
    exit 127
fi

namespace=/var/run/netns/fsnode1
kubeconfig=$root/.testbed/run/kubeconfig
if [ ! -e "$namespace" ] || [ ! -f "$kubeconfig" ]; then
    echo "$program: the testbed is not up: run \`testbed up\`, or set CLUSTER=current to use your own kubeconfig" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "$program: the testbed's network can only be entered by root" >&2
    exit 1
fi
# No proxy can be reached from there.
unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
KUBECONFIG=$kubeconfig exec nsenter --net="$namespace" "$ours" "$@"
