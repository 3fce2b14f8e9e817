#!/usr/bin/env bash
# The demo: from nothing to a Valkey cluster that serves load, on a Kubernetes of its own.
#
# Run it as `make demo`. It leaves everything running, and running it again picks up where things are.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

namespace=foreshard-demo
name=sample
load_image=${LOAD_IMAGE:-docker.io/foreshard/load:dev}
load_seconds=${LOAD_SECONDS:-15}
# Pods start within seconds; pulling images on a cluster of yours may take longer.
ready_within=${READY_WITHIN:-180}

if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold='' plain=''; fi
headline() { printf '\n%s==> %s%s\n' "$bold" "$1" "$plain"; }
kubectl() { ./bin/kubectl --namespace "$namespace" "$@"; }

show_trouble() {
    kubectl get valkeycluster,pods -o wide || true
    kubectl get valkeycluster "$name" -o jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}' || true
    ./bin/kubectl --namespace foreshard-system logs deployment/foreshard --tail=20 || true
}

started=$SECONDS
headline "Kubernetes and the operator (the first time, everything is built: about a quarter of an hour on two cores)"
make --no-print-directory deploy plugin

headline "A cluster of three shards with one replica each: config/samples/cluster.yaml"
./bin/kubectl apply --server-side -f - <<EOF
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
  labels:
    pod-security.kubernetes.io/enforce: restricted
EOF
kubectl apply -f config/samples/cluster.yaml
applied=$SECONDS

# A line for every change: since when, where it is, and what it does or waits for.
printf '%4s  %-24s %-8s %-12s %s\n' s phase members slots message
last='' phase=''
while :; do
    state=$(kubectl get valkeycluster "$name" -o jsonpath='{.status.phase}|{.status.members}|{.status.slots}|{.status.message}')
    if [ "$state" != "$last" ] && [ "$state" != '|||' ]; then
        IFS='|' read -r phase members slots message <<<"$state"
        printf '%4s  %-24s %-8s %-12s %.48s\n' "$((SECONDS - applied))" "$phase" "$members" "$slots" "$message"
        last=$state
    fi
    ready=$(kubectl get valkeycluster "$name" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}')
    [ "$ready" = True ] && [ "$phase" = Running ] && break
    if [ $((SECONDS - applied)) -gt "$ready_within" ]; then
        show_trouble
        printf '\nThe cluster is not ready after %s s. Above: its state, its conditions and the last words of the operator.\n' "$ready_within" >&2
        exit 1
    fi
    sleep 0.2
done
ready_after=$((SECONDS - applied))

headline "Load from a pod for $load_seconds s; every acknowledged write is remembered and read back"
kubectl delete pod load --ignore-not-found --wait >/dev/null
kubectl apply -f - >/dev/null <<EOF
apiVersion: v1
kind: Pod
metadata:
  name: load
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: RuntimeDefault } }
  containers:
    - name: load
      image: $load_image
      args: [run, --cluster, "$name.$namespace.svc:6379", --duration, "${load_seconds}s", --rate, "1000", --progress]
      resources: { requests: { cpu: 50m, memory: 32Mi }, limits: { memory: 128Mi } }
      securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
EOF
# Until the container runs there is no log to follow.
if ! kubectl wait pod/load --for=jsonpath='{.status.phase}'=Running --timeout=60s >/dev/null 2>&1; then
    phase=$(kubectl get pod load -o jsonpath='{.status.phase}')
    if [ "$phase" != Succeeded ] && [ "$phase" != Failed ]; then
        kubectl describe pod load | tail -n 15
        printf '\nThe load did not start within 60 s: above is why.\n' >&2
        exit 1
    fi
fi
kubectl logs load --follow
# The log ends a moment before the kubelet says how.
for _ in $(seq 60); do
    code=$(kubectl get pod load -o jsonpath='{.status.containerStatuses[0].state.terminated.exitCode}')
    [ -n "$code" ] && break
    sleep 0.5
done
if [ "${code:-none}" != 0 ]; then
    show_trouble
    printf '\nThe load ended with exit code %s: see its report above.\n' "${code:-none}" >&2
    exit 1
fi

headline "Done in $((SECONDS - started)) s; the cluster was ready $ready_after s after it was asked for"
./bin/kubectl foreshard status "$name" --namespace "$namespace"
if [ "${CLUSTER:-testbed}" = current ]; then
    kubectl_words="kubectl --namespace $namespace"
    down="make uninstall CLUSTER=current; kubectl delete namespace $namespace"
else
    kubectl_words="./bin/kubectl --namespace $namespace"
    down="make cluster-down"
fi
cat <<EOF

How to go on:
  ./bin/kubectl foreshard status $name --namespace $namespace
  $kubectl_words describe valkeycluster $name     what it is made of, and what happened
  $kubectl_words get pods -o wide --watch         then delete one and see what becomes of it
  $kubectl_words edit valkeycluster $name         change it
  make e2e-list                                             what is tested, by name
  $down
EOF
