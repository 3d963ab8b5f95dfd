#!/usr/bin/env bash
# A Ray cluster of several nodes on this machine, to rehearse a real one:
#   cluster/local.sh start [NODES]     (default 2; each node offers 2 CPUs)
#   summhay run jobs/quickstart.yaml --address 127.0.0.1:6399 --store ./summhay-store
#   cluster/local.sh stop
# Every node sees this machine's disk, so a local store is shared; nodes of different machines need a shared folder.
set -euo pipefail
here="$(cd "$(dirname "$0")/.." && pwd)"
ray="$here/.venv/bin/ray"
folder="${TMPDIR:-/tmp}/summhay-cluster"
port=6399
export RAY_USAGE_STATS_ENABLED=0 RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=1

start() {
  mkdir -p "$folder"
  "$ray" start --head --port "$port" --num-cpus 2 --include-dashboard=false --disable-usage-stats \
    --temp-dir "$folder" --min-worker-port 20100 --max-worker-port 20999 \
    --dashboard-agent-listen-port 20001 --dashboard-agent-grpc-port 20002 --runtime-env-agent-port 20003 --metrics-export-port 20004
  for node in $(seq 2 "${1:-2}"); do
    base=$((20000 + node * 1000))
    "$ray" start --address "127.0.0.1:$port" --num-cpus 2 --disable-usage-stats \
      --min-worker-port $((base + 100)) --max-worker-port $((base + 999)) \
      --dashboard-agent-listen-port $((base + 1)) --dashboard-agent-grpc-port $((base + 2)) \
      --runtime-env-agent-port $((base + 3)) --metrics-export-port $((base + 4))
  done
  pgrep -f "$folder/session_" > "$folder/pids"
}

stop() {
  # Only what `start` started; Ray's workers end with their node.
  [ -f "$folder/pids" ] || { echo "no local cluster was started"; return 0; }
  xargs -r kill -TERM < "$folder/pids" 2>/dev/null || true
  sleep 3
  xargs -r kill -KILL < "$folder/pids" 2>/dev/null || true
  rm -rf "$folder"
}

case "${1:-}" in
  start) start "${2:-2}" ;;
  stop) stop ;;
  *) sed -n 2,6p "$0"; exit 2 ;;
esac
