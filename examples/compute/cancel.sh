#!/usr/bin/env bash
# Hands in a script that takes long, calls it off when it runs, and looks that it was ended.
#
# URL: where the server listens for users of job-orchestrator; SERVICE: one of its services; USER_ID: your number.
set -euo pipefail
url=${URL:-http://127.0.0.1:5000}
service=${SERVICE:-example}
user=${USER_ID:-1}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/run.sh" <<'SCRIPT'
#!/bin/bash
trap 'echo $? > .orchestrator.exit' EXIT
for n in {1..600}; do sleep 1; done
SCRIPT

# status gives the word for the state of the job.
status() { curl -sS --max-time 60 "$url/download/$id" | jq -r .status; }

# await waits for a state: so many tenths of a second.
await() {
	for _ in $(seq "$2"); do
		now=$(status)
		[ "$now" != "$1" ] || return 0
		sleep 0.1
	done
	echo "job $id is $now; $1 was to be expected" >&2
	return 1
}

id=$(curl -sS --max-time 60 -F "file=@$work/run.sh" -F "user_id=$user" -F "service=$service" "$url/upload" | jq -r .id)
echo "job $id"
await Running 300

curl -sS --max-time 60 -X POST "$url/terminate/$id" | jq -r .message
await Killed 20
echo "job $id is $now"
