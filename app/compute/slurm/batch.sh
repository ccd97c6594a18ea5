# The rest is the same for all payloads. It takes the payload, once; runs run.sh; and writes down how it ended.
unset told child
trap 'told=x$told; pass' TERM
# pass sends TERM on to run.sh: Slurm may send it to this script alone. What has not come so far yet is waited for.
pass() {
	[ -n "$child" ] || return
	until [ -e claim/over ] || ! kill -0 "$child" 2>/dev/null; do
		term && return
		sleep 0.1
	done
}
# term sends TERM to what run.sh began, but not to what confines it, which would end it without a word.
term() {
	local pid sent=1
	for pid in $(marked); do
		[ "${#confined[@]}" -gt 0 ] && [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "${confined[0]}")" ] && continue
		kill -TERM "$pid" 2>/dev/null && sent=0
	done
	return "$sent"
}
umask 077
cd "$dir" || exit 125
for name in $(compgen -e); do
	case $name in
	SLURM_JWT) unset "$name" ;;
	SLURM_*) ;;
	*) unset "$name" 2>/dev/null ;;
	esac
done
export PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 LC_ALL=C

# Whoever makes the folder has the payload. A second run, and one that nobody wants any more, ends here.
mkdir claim 2>/dev/null || exit 126
echo "$SLURM_JOB_ID" >claim/by
mkdir -p tmp

begun=$(date +%s)
up() { read -r now _ </proc/uptime && now=${now/./} && echo $((10#$now)); } # hundredths of a second
first=$(up)

# ending EXIT SIGNAL CAUSE writes exit.json so that it is there whole or not at all.
ending() {
	local cut=false was=false cpu
	[ -e stdout.cut ] || [ -e stderr.cut ] && cut=true
	[ -n "$told" ] && was=true
	times >claim/times
	cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, "m"); sub("s", "", t[2]); sum += t[1] * 60000 + t[2] * 1000 } printf "%d", sum }' claim/times)
	printf '{"exit":%d,"signal":%d,"cause":"%s","told":%s,"started":%d,"finished":%d,"wall_ms":%d,"cpu_ms":%d,"disk":%d,"cut":%s,"place":"%s"}\n' \
		"$1" "$2" "$3" "$was" "$begun" "$(date +%s)" "$((($(up) - first) * 10))" "${cpu:-0}" "$(used)" "$cut" "${SLURMD_NODENAME//[!A-Za-z0-9._-]/}" >"claim/exit.$BASHPID"
	sync "claim/exit.$BASHPID" 2>/dev/null || sync
	mv -f "claim/exit.$BASHPID" exit.json
	sync . 2>/dev/null
}

# used gives the KiB of the payload's files.
used() { du -skx work tmp 2>/dev/null | awk '{ n += $1 } END { printf "%d", n }'; }

# reap ends what run.sh left behind: Slurm does that itself only where it tracks processes by cgroups. They are found by a variable that run.sh was given.
reap() {
	local n found
	for n in 1 2 3 4 5; do
		found=$(marked)
		[ -z "$found" ] && return
		kill -KILL $found 2>/dev/null
	done
}

marked() { grep -lzx "STAGEPOST_RUN=$SLURM_JOB_ID" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'; }

# stop CAUSE ends everything of this run: TERM, a while, KILL. It runs in the watcher, which ignores TERM; after KILL nobody can write exit.json, so it does before.
stop() {
	echo "$1" >claim/cause
	kill -TERM $$
	sleep "$grace"
	reap
	told=1 ending -1 9 "$1"
	kill -KILL 0
}

watch() {
	local n=0
	while sleep 1; do
		n=$((n + 1))
		[ "$wall" -gt 0 ] && [ "$(up)" -ge "$((first + wall * 100))" ] && stop wall
		[ "$disk" -gt 0 ] && [ "$((n % 3))" = 0 ] && [ "$(used)" -gt "$disk" ] && stop disk
	done
}

# keep FILE writes the first bytes of its input to a file and lets the rest go, so that whoever writes is not held up.
keep() {
	if command -v stdbuf >/dev/null; then stdbuf -o0 head -c "$output"; else head -c "$output"; fi >"$1"
	[ "$(head -c 1 | wc -c)" -gt 0 ] && : >"$1.cut" && cat >/dev/null
	: >"claim/$1"
}

out=stdout err=stderr
if [ "$output" -gt 0 ]; then
	mkfifo claim/out claim/err || exit 125
	(trap '' TERM; keep stdout <claim/out) &
	keepers=$!
	(trap '' TERM; keep stderr <claim/err) &
	keepers="$keepers $!"
	out=claim/out err=claim/err
fi
if [ "$wall" -gt 0 ] || [ "$disk" -gt 0 ]; then
	(trap '' TERM; watch) &
	watcher=$!
fi

# Nothing but waiting lets a shell see a signal at once: run.sh runs beside this script, which passes TERM on.
# The inner bash is there to tell an end by a signal from an exit code that looks like one: it writes a line for the former.
(
	trap - INT QUIT
	exec 7>"$out" 8>"$err" 9>claim/note </dev/null
	cd work || exit 125
	unset told now begun first
	export HOME="$dir/work" TMPDIR=/tmp
	[ "${#confined[@]}" = 0 ] && TMPDIR=$dir/tmp
	[ "$files" -gt 0 ] && ulimit -n "$files"
	[ "$cpu" -gt 0 ] && ulimit -S -t "$cpu" && ulimit -H -t "$((cpu + 5))" # at the soft limit comes SIGXCPU, at the hard one SIGKILL
	[ "$disk" -gt 0 ] && ulimit -f "$disk"
	unset LC_ALL
	. ../env
	export STAGEPOST_RUN=$SLURM_JOB_ID
	exec "${confined[@]}" /bin/bash -p -c 'trap : TERM; /bin/bash run.sh >&7 2>&8 7>&- 8>&- 9>&-; exit $?' 2>&9
) &
child=$!
[ -n "$told" ] && pass # it came before there was anybody to tell
while :; do
	before=$told
	wait "$child"
	code=$?
	[ "$before" = "$told" ] && break # else the signal ended the wait
done
: >claim/over
[ -n "$watcher" ] && kill -KILL "$watcher" 2>/dev/null
trap '' TERM
reap
if [ -n "$keepers" ]; then
	n=0 # a process that got away may hold the other end
	until [ -e claim/stdout ] && [ -e claim/stderr ] || [ "$n" -ge 20 ]; do sleep 0.1; n=$((n + 1)); done
	kill -KILL $keepers 2>/dev/null
fi
signal=0
if [ "$code" -gt 128 ] && [ "$code" -le 192 ] && [ -s claim/note ]; then
	signal=$((code - 128))
fi
cause=
[ -s claim/cause ] && read -r cause <claim/cause && told=1
if [ "$signal" -gt 0 ]; then ending -1 "$signal" "$cause"; else ending "$code" 0 "$cause"; fi
exit "$code"
