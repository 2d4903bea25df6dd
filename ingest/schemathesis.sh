#!/usr/bin/env bash
# Has schemathesis try the HTTP API against openapi.yaml: what is right, what is wrong, and
# what is not there. Weir runs as it does in production, with a key; broker and engine are
# those of weir dev. make schemathesis calls it; WEIR is the program, SEED repeats a run,
# arguments go to schemathesis.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=4.32.5
weir=${WEIR:-bin/weir}
venv=bin/schemathesis-$VERSION
command -v python3 >/dev/null || { echo "NOT RUN: schemathesis. Missing: python3, 3.10 or later."; [ -z "${CI:-}" ]; exit; }
if ! [ -x "$venv/bin/schemathesis" ]; then
	python3 -m venv "$venv" && "$venv/bin/pip" -q install "schemathesis==$VERSION" || {
		rm -rf "$venv"
		echo "NOT RUN: schemathesis. It cannot be installed from PyPI."; [ -z "${CI:-}" ]; exit
	}
fi

dir=$(mktemp -d)
pids=()
end() {
	for p in "${pids[@]}"; do kill "$p" 2>/dev/null && wait "$p" || true; done
	rm -rf "$dir"
}
trap end EXIT
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
ready() { for _ in $(seq 600); do curl -sf "http://$1/readyz" >/dev/null && return; sleep 0.1; done; echo "weir is not ready:"; cat "$dir"/*.log; return 1; }

# The key may do everything, as fast as it likes: how fast callers may be has other tests.
key=weir_live_schemathesis$RANDOM$RANDOM$RANDOM
hash=$(printf %s "$key" | python3 -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
rates='{query: "bucket 100000 refill 100000/s", write: "bucket 100000 refill 100000/s", batch: "bucket 100000 refill 100000/s"}'
{ cat deploy/presets/dev.yaml; cat <<POLICY
  - {name: decider, default_region: CN}
keys:
  - {name: schemathesis, tenant: default, scopes: [send, read, admin], hash: "sha256:$hash", rates: $rates}
POLICY
} >"$dir/policy.yaml"
dev=127.0.0.1:$(port) kafka=127.0.0.1:$(port) clickhouse=127.0.0.1:$(port) run=127.0.0.1:$(port)
"$weir" dev --dir "$dir/weir" --policy "$dir/policy.yaml" --http "$dev" --kafka "$kafka" --clickhouse "$clickhouse" >"$dir/dev.log" 2>&1 &
pids+=($!)
ready "$dev"
"$weir" run --roles ingest --kafka-brokers "$kafka" --kafka-partitions 8 --clickhouse-url "http://$clickhouse" --http-listen "$run" --http-trusted-proxies 127.0.0.1 --slot 1 >"$dir/run.log" 2>&1 &
pids=($! "${pids[@]}") # ends first
ready "$run"

status=0
SCHEMATHESIS_HOOKS=ingest/schemathesis.py "$venv/bin/schemathesis" --config-file ingest/schemathesis.toml run "http://$run/openapi.yaml" --url "http://$run" \
	-H "Authorization: Bearer $key" --output-truncate true ${SEED:+--seed "$SEED"} "$@" || status=$?
if grep -n "panicked" "$dir/run.log"; then status=1; fi
exit $status
