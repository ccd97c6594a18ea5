#!/usr/bin/env bash
# Hands in a script with an input, waits for the end, and unpacks the results.
#
# URL: where the server listens for users of job-orchestrator; SERVICE: one of its services; USER_ID: your number; OUT: a directory for the results.
set -euo pipefail
url=${URL:-http://127.0.0.1:5000}
service=${SERVICE:-example}
user=${USER_ID:-1}
out=${OUT:-results}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '%s\n' 31 7 12 >"$work/numbers.txt"
cat >"$work/run.sh" <<'SCRIPT'
#!/bin/bash
trap 'echo $? > .orchestrator.exit' EXIT
sort -n numbers.txt > sorted.txt
SCRIPT

# Every part with a file name is a file of the job, whatever the part is called.
answer=$(curl -sS --max-time 60 -F "file=@$work/run.sh" -F "file=@$work/numbers.txt" -F "user_id=$user" -F "service=$service" "$url/upload")
id=$(jq -r .id <<<"$answer")
if [ "$(jq -r .status <<<"$answer")" != Queued ]; then
	echo "not taken: $(jq -r .message <<<"$answer")" >&2
	exit 1
fi
echo "job $id"

# As long as it has not ended the answer is JSON; the results are a ZIP.
for _ in $(seq 300); do
	kind=$(curl -sS --max-time 60 -o "$work/answer" -w '%{content_type}' "$url/download/$id")
	case $kind in
	application/zip*)
		mkdir -p "$out"
		unzip -q -o "$work/answer" -d "$out"
		echo "results in $out"
		cat "$out/sorted.txt"
		exit 0
		;;
	esac
	status=$(jq -r .status "$work/answer")
	case $status in
	Failed | Invalid | Killed | Cleaned)
		echo "job $id ended as $status" >&2
		exit 1
		;;
	esac
	sleep 0.2
done
echo "job $id is still $status after a minute" >&2
exit 1
