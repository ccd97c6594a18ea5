package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/sandbox/landlock"
)

// script is a hostile command, and what must come of it.
type script struct {
	name, text string
	out        string // standard output in the tiers with namespaces
	// standard output in tier none where that differs: what it cannot contain; "-": it would change the machine there,
	// or shows nothing, and is not tried
	none   string
	cause  Cause
	limits func(*Limits)
}

// anything as output: only the cause and the end matter.
const anything = "*"

// scripts write what they reached to standard output. $OTHER is another command's directory, $AGENT a process of the
// agent's.
var scripts = []script{
	{name: "environment of the init", text: `tr '\0' '\n' < /proc/1/environ | grep -c SECRET`, out: "0\n"},
	{name: "environment of the agent", text: `grep -c hunter2 /proc/$AGENT/environ 2>/dev/null || echo no`, out: "no\n", none: anything},
	{name: "memory of the init", text: `head -c 1 /proc/1/mem || echo no`, out: "no\n"},
	{name: "descriptors of the init", text: `for f in /proc/$PPID/fd/[0-9]*; do readlink $f || : < $f; done 2>/dev/null | wc -l`, out: "0\n", none: anything},
	{name: "root of the init", text: `ls /proc/$PPID/root/ >/dev/null 2>&1 || echo no`, out: "no\n", none: anything},
	{name: "shadow", text: `cat /etc/shadow || echo no`, out: "no\n", none: anything},
	{name: "keys of root", text: `ls /root /etc/ssl/private || echo no`, out: "no\n", none: anything},
	{name: "another's directory", text: `cat "$OTHER/secret" || echo no`, out: "no\n", none: "hunter2"},
	{name: "write into another's directory", text: `echo x > "$OTHER/planted" && echo yes || echo no`, out: "no\n", none: "yes\n"},
	{name: "another's directory by dots", text: `cat ../*/secret ../../*/secret 2>/dev/null || echo no`, out: "no\n", none: anything},
	{name: "program of the machine", text: `echo x 2>/dev/null >> /usr/bin/env && echo yes || echo no`, out: "no\n", none: "-", limits: nil},
	{name: "kill the agent", text: `kill -9 $AGENT && echo yes || echo no`, out: "no\n"},
	{name: "kill all processes", text: `kill -9 -1; echo after`, out: "after\n", none: "-"},
	{name: "kill the init", text: `kill -9 1; kill -9 $PPID; kill -QUIT $PPID; kill -SEGV $PPID; kill -STOP $PPID; echo after`, out: "after\n"},
	{name: "kill -STOP the agent", text: `kill -STOP $AGENT && echo yes || echo no`, out: "no\n"},
	{name: "processes of the machine", text: `ls -d /proc/[0-9]* | wc -l | grep -qE '^[1-9]$' && echo few`, out: "few\n", none: anything},
	{name: "core_pattern", text: `(echo '|/bin/sh' > /proc/sys/kernel/core_pattern) && echo yes || echo no`, out: "no\n", none: "-"},
	{name: "sysrq", text: `test -w /proc/sysrq-trigger && [ "$(stat -c %t%T /proc/sysrq-trigger)" != 13 ] && echo yes || echo no`, out: "no\n", none: anything},
	{name: "sysctl", text: `(echo 1 > /proc/sys/vm/drop_caches) 2>/dev/null && echo yes || echo no`, out: "no\n", none: "-"},
	{name: "oom_score_adj", text: `(echo -1000 > /proc/self/oom_score_adj) && echo yes || echo no`, out: "no\n"},
	{name: "kernel memory", text: `head -c 1 /proc/kcore /dev/mem /dev/kmem >/dev/null && echo yes || echo no`, out: "no\n"},
	{name: "kernel log", text: `dmesg >/dev/null && echo yes || echo no`, out: "no\n"},
	{name: "disk device", text: `ls /dev/sd* /dev/vd* /dev/loop* /dev/kvm /dev/fuse 2>/dev/null | wc -l`, out: "0\n", none: anything},
	{name: "terminal", text: `(echo x > /dev/tty) && echo yes || echo no`, out: "no\n"},
	{name: "mount", text: `mount -t tmpfs none . && echo yes || echo no`, out: "no\n"},
	{name: "namespace in a namespace", text: `unshare -r id && echo yes || echo no`, out: "no\n"},
	{name: "enter the machine's namespaces", text: `nsenter -t 1 -a id && echo yes || echo no`, out: "no\n"},
	{name: "device node", text: `mknod d b 8 0 && echo yes || echo no`, out: "no\n"},
	{name: "setuid copy", text: `cp /bin/bash b; chmod u+s b 2>/dev/null && echo yes || echo no; find . -perm /6000`, out: "no\n"},
	{name: "setuid program", text: `su -c id </dev/null >/dev/null 2>&1 && echo yes || echo no; grep NoNewPrivs /proc/self/status`, out: "no\nNoNewPrivs:\t1\n", none: anything},
	{name: "capabilities", text: `grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status | grep -vc 0000000000000000`, out: "0\n"},
	{name: "capabilities to come", text: `grep -E 'CapBnd' /proc/self/status | grep -vc 0000000000000000`, out: "0\n", none: anything},
	{name: "control groups", text: `ls /sys/fs/cgroup 2>/dev/null | wc -l`, out: "0\n", none: anything},
	{name: "metadata address", text: `timeout 60 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80' && echo yes || echo no`, out: "no\n", none: "-"},
	{name: "another address", text: `timeout 60 bash -c 'exec 3<>/dev/tcp/192.0.2.1/80' 2>&1 | grep -o unreachable | head -1`, out: "unreachable\n", none: "-"},
	{name: "hard link out", text: `ln /etc/passwd mine && echo yes || echo no`, out: "no\n", none: anything},
	{name: "links planted for the agent", text: `for f in stdout stderr status result.zip .job run.sh; do ln -sf /etc/shadow $f; done; ls | wc -l`, out: "5\n"},
	{name: "directory exchanged", text: `cd ..; mv "$PWD" x 2>/dev/null; rmdir /job && echo yes || echo no`, out: "no\n"},
	{name: "directory closed", text: `mkdir -p d/e; echo x > d/e/f; chmod 0 d/e d .; echo done`, out: "done\n"},
	{name: "rights change in a loop", text: `(while :; do chmod 0 .; chmod 700 .; done) & for i in {1..50}; do ln -sfn /etc l$i; rm l$i; mkdir l$i; done 2>/dev/null; echo done`, out: "done\n"},
	{name: "fork bomb", text: `f() { [ $1 -gt 0 ] && { f $(($1-1)) | f $(($1-1)) & }; }; f 9; sleep 600`, out: anything, cause: Timeout},
	{name: "threads", text: `./hostile hostile threads`, out: anything},
	{name: "memory", text: `{ head -c 256M /dev/zero && sleep 600; } | tail; exit ${PIPESTATUS[1]}`, out: anything, cause: Memory},
	{name: "memory in shared files", text: `head -c 512M /dev/zero > /dev/shm/x && sleep 600; exit 1`, out: anything, none: "-", cause: Memory, limits: func(l *Limits) { l.Disk = 0 }},
	{name: "shared files are bounded", text: `head -c 64M /dev/zero > /dev/shm/x; sleep 600`, out: "", none: "-", cause: Disk},
	{name: "many small files", text: `i=0; while :; do : > f$((i++)); done`, out: "", cause: Disk,
		limits: func(l *Limits) { l.Disk = 1 << 20 }},
	{name: "small temporary files", text: `i=0; while [ $i -lt 9000 ]; do : > $TMPDIR/f$((i++)) || break; done; sleep 600`, out: "", cause: Disk, limits: func(l *Limits) { l.Disk = 1 << 20 }},
	{name: "sparse file", text: `truncate -s 15M s && stat -c %s s`, out: "15728640\n"},
	{name: "sparse file beyond the limit", text: `truncate -s 1T s; exit $?`, out: "", cause: Disk},
	{name: "deep directories", text: `for i in {1..400}; do mkdir d && cd d || break; done; sleep 600`, out: "", cause: Depth},
	{name: "bytes in a closed directory", text: `mkdir d; for i in {1..30}; do head -c 1M /dev/zero > d/f$i; done; chmod 0 d; sleep 600`, out: "", cause: Disk},
	{name: "odd names", text: `touch -- -rf $'a\nb' $'\xff\xfe' '$(id)' "$(printf 'x%.0s' {1..255})"; ls | wc -c`, out: anything},
	{name: "open files", text: `for i in {10..200}; do eval "exec $i</dev/null" || break; done 2>/dev/null; echo $((i < 70))`, out: "1\n"},
	{name: "stop itself", text: `kill -STOP $$`, out: "", cause: Timeout},
	{name: "deaf", text: `trap '' TERM HUP INT QUIT; while :; do sleep 60; done`, out: "", cause: Timeout},
	{name: "exec", text: `exec sleep 600`, out: "", cause: Timeout},
	{name: "daemon that holds the output", text: `setsid sleep 600 & exit 0`, out: ""},
	{name: "output closed", text: `exec >&- 2>&-; sleep 0.1; exit 0`, out: ""},
	{name: "a million lines", text: `yes | head -n 1000000; exit 0`, out: anything},
	{name: "binary output", text: `head -c 3000000 /dev/urandom`, out: anything},
	{name: "output without end", text: `cat /dev/zero`, out: anything, cause: Timeout},
	{name: "stdin", text: `cat; read x || echo end`, out: "end\n"},
	{name: "busy", text: `while :; do :; done`, out: "", cause: CPU,
		limits: func(l *Limits) { l.CPU = 300 * time.Millisecond }},
	{name: "kills itself", text: `kill -9 $$`, out: "", cause: Signal},
}

// unsafeInNone is what tier none would let through to the machine itself.
func unsafeInNone(c script) bool {
	return c.none == "-" || strings.HasPrefix(c.name, "kill the ") && !signalsAreScoped
}

// signalsAreScoped reports whether this kernel keeps signals inside of tier none.
var signalsAreScoped = func() bool {
	fd := landlock.Scope()
	if fd < 0 {
		return false
	}
	_ = unix.Close(fd)
	return true
}()

func TestHostileScripts(t *testing.T) {
	t.Setenv("STAGEPOST_SECRET", "hunter2")
	other := filepath.Join(t.TempDir(), "job")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "secret"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		for _, c := range scripts {
			if tier == None && unsafeInNone(c) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				hostile(t, s, tier, c, other)
			})
		}
	})
	if text, err := os.ReadFile(filepath.Join(other, "secret")); err != nil || string(text) != "hunter2" {
		t.Errorf("another's file: got %q, %v", text, err)
	}
}

func hostile(t *testing.T, s *Sandbox, tier string, c script, other string) {
	g := shell(t, s, tier, c.text, func(cmd *Command) {
		cmd.Limits = Limits{Wall: 700 * time.Millisecond, CPU: time.Minute, Memory: 128 << 20, Disk: 16 << 20,
			Output: 1 << 20, Processes: 64, Files: 64}
		if c.cause != Timeout {
			// another limit is what is shown, and a busy machine must not come to this one first
			cmd.Limits.Wall = patience - time.Minute
		}
		if c.limits != nil {
			c.limits(&cmd.Limits)
		}
		if strings.Contains(c.text, "./hostile") {
			visit(t, cmd.Dir)
		}
		cmd.Grace = 100 * time.Millisecond
		cmd.Env = []string{"OTHER=" + other, "AGENT=" + strconv.Itoa(os.Getpid()), "LC_ALL=C"}
		dir := cmd.Dir
		t.Cleanup(func() { removeTree(dir) })
	})
	want, cause := c.out, c.cause
	// commands of root have users of their own in each tier
	foreign := strings.Contains(c.text, "$OTHER") && os.Geteuid() == 0
	if tier == None && c.none != "" && !foreign {
		want = c.none
	}
	if want != anything && g.out != want {
		t.Errorf("got %q, want %q (%q, %+v)", g.out, want, g.err, g.Ending)
	}
	if (c.name == "fork bomb" || c.name == "threads") && s.groups == nil &&
		(g.Cause == Processes || g.Cause == Memory) {
		return // the watch saw it
	}
	if g.Cause != cause {
		t.Errorf("got %+v, want %q (%q)", g.Ending, cause, g.err)
	}
	if g.StdoutBytes > 1<<20 != g.Cut {
		t.Errorf("got %+v, want a cut if there was too much", g.Ending)
	}
}
