#!/usr/bin/env bash
# Hands in a script that writes down how far it is, fetches what there is while it runs, and then the whole.
#
# URL: where the server listens for users of job-orchestrator; SERVICE: one of its services; USER_ID: your number; PAUSE: seconds that a step takes;
# WITHIN: seconds after which there must be something to fetch.
set -euo pipefail
url=${URL:-http://127.0.0.1:5000}
service=${SERVICE:-example}
user=${USER_ID:-1}
pause=${PAUSE:-0.4}
within=${WITHIN:-2}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/run.sh" <<SCRIPT
#!/bin/bash
trap 'echo \$? > .orchestrator.exit' EXIT
for n in {1..8}; do
	echo "step \$n of 8" >> progress.txt
	sleep $pause
done
SCRIPT

id=$(curl -sS --max-time 60 -F "file=@$work/run.sh" -F "user_id=$user" -F "service=$service" "$url/upload" | jq -r .id)
echo "job $id"

# fetch gets a ZIP with some files in it: a path of the server, seconds to wait for it at most, names.
fetch() {
	local path=$1 until=$((SECONDS + $2)) names
	shift 2
	while [ $SECONDS -le "$until" ]; do
		if [[ $(curl -sS --max-time 60 -o "$work/answer" -w '%{content_type}' "$url/$path/$id") == application/zip* ]]; then
			names=$(unzip -Z1 "$work/answer")
			missing=
			for name in "$@"; do grep -qxF -- "$name" <<<"$names" || missing=$name; done
			[ -n "$missing" ] || return 0
		fi
		sleep 0.2
	done
	echo "/$path/$id has no ${missing:-ZIP}" >&2
	return 1
}

fetch download_partial "$within" run.sh progress.txt
echo "so far: $(unzip -p "$work/answer" progress.txt | tail -n 1)"

fetch download 60 run.sh progress.txt .orchestrator.exit
echo "at the end: $(unzip -p "$work/answer" progress.txt | tail -n 1), exit code $(unzip -p "$work/answer" .orchestrator.exit)"
