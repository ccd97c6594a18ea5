#!/bin/sh
# A remote worker of Stagepost in shell, with curl and jq.
#
#     worker.sh http://127.0.0.1:7433 demo.count Counting Checking
#
# It claims one job at a time, renews the claim while it works, and reports. A request whose answer is lost is sent again:
# a claim that is not used expires, and the server recognizes a repeated report. A token comes from STAGEPOST_TOKEN.
set -u
server=$1 kind=$2
shift 2
worker=${WORKER:-$(hostname)-$$}
lease=${LEASE:-15}
places=$(printf '%s\n' "$@" | jq -R --arg kind "$kind" '{kind: $kind, state: .}' | jq -sc .)

# post PATH BODY prints the answer, and repeats the request until there is one. It fails if the server refused it.
post() {
	while :; do
		answer=$(printf '%s' "$2" | curl -s -S -m 90 -w '\n%{http_code}' -H 'Content-Type: application/json' \
			${STAGEPOST_TOKEN:+-H "Authorization: Bearer $STAGEPOST_TOKEN"} \
			--data-binary @- "$server/api/v1/worker/$1" 2>/dev/null)
		code=$(printf '%s\n' "$answer" | tail -n 1)
		case $code in
		2??) printf '%s\n' "$answer" | sed '$d'; return 0 ;;
		000 | "" | 429 | 502 | 503 | 504) sleep 1 ;;
		*) printf '%s\n' "$answer" | sed '$d' >&2; return 1 ;;
		esac
	done
}

# renew ID EPOCH keeps the claim as long as this worker lives.
renew() {
	body=$(jq -nc --arg w "$worker" --arg id "$1" --argjson e "$2" --argjson l "$lease" \
		'{worker: $w, lease: $l, leases: [{job: $id, epoch: $e}]}')
	while sleep $((lease > 3 ? lease / 3 : 1)) && kill -0 $$ 2>/dev/null; do
		post renew "$body" >/dev/null || return
	done
}

while :; do
	claim=$(jq -nc --arg w "$worker" --argjson from "$places" --argjson l "$lease" '{worker: $w, from: $from, n: 1, lease: $l, wait: 10}')
	job=$(post claim "$claim" | jq -c '.jobs[0] // empty')
	[ -n "$job" ] || continue
	id=$(printf '%s' "$job" | jq -r .id) epoch=$(printf '%s' "$job" | jq -r .epoch) state=$(printf '%s' "$job" | jq -r .state)
	renew "$id" "$epoch" &
	renewing=$!

	words=$(printf '%s' "$job" | jq -r .spec.text | wc -w | tr -d ' ')
	case $state in
	Counting)
		report=$(jq -nc --argjson n "$words" '{merge: {words: $n}, log: [{n: 1, text: "counted", attrs: {words: $n}}],
			tasks: [{name: "count", kind: "demo.part", state: "Done", done: $n, total: $n}]}')
		;;
	*)
		if [ "$(printf '%s' "$job" | jq -r .data.words)" = "$words" ]; then
			report='{"merge": {"checked": true}, "log": [{"n": 1, "text": "checked"}]}'
		else
			report='{"fail": "the number of words is wrong", "cause": "wrong-number"}'
		fi
		;;
	esac
	body=$(printf '%s' "$report" | jq -c --arg w "$worker" --arg id "$id" --argjson e "$epoch" \
		'{worker: $w, reports: [. + {job: $id, epoch: $e}]}')
	post report "$body" >/dev/null
	kill "$renewing" 2>/dev/null
	wait "$renewing" 2>/dev/null
done
