package policy

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const trapLine = "trap 'echo $? > .orchestrator.exit' EXIT\n"

func TestInspect(t *testing.T) {
	for _, ok := range []string{
		"#!/bin/bash\n" + trapLine + "echo hello\n",
		trapLine + "rm -f local.txt",
		trapLine + "curly braces; wgets; dockerfile; mounted; stressful",
		trapLine + "curl_like=1; my_ssh=2; docker2=3; écurl=4; curlé=5",
		trapLine + "chmod 133 x; cat data; echo that is; services",
		trapLine + "echo what | sort; format x",
		trapLine + "dd if=a of=b",
		trapLine + "echo $TOKE; python3 script.py -c",
	} {
		if reason := inspect([]byte(ok)); reason != "" {
			t.Errorf("%q: %s", ok, reason)
		}
	}
	for bad, reason := range map[string]string{
		"rm -rf /": "destructive rm", "rm -rf ~": "destructive rm", "rm  x/y": "destructive rm",
		"# transform input/output": "destructive rm",
		"rm\u00a0x/y":              "destructive rm", "mkfs /x": "mkfs", "dd x of=/dev/sda": "dd to a device",
		"dd if=/dev/zero": "dd from", "dd if=/dev/urandom": "dd from",
		"cat /etc/passwd": "/etc/passwd", "x /etc/shadow": "shadow", "/etc/sudoers": "sudoers", "/proc/1": "/proc/",
		"/sys/x": "/sys/", "ls ~/.ssh/": "ssh",
		"/root/x": "/root/", "/var/run/docker.sock": "docker.sock", "curl http:": "curl", "wget": "wget",
		"nc -l": "(nc)", "ncat": "ncat", "socat x": "socat",
		"ssh host": "ssh", "scp": "scp", "sftp": "sftp", "telnet": "telnet", "rsync": "rsync",
		"x>/dev/tcp/1": "/dev/tcp/", "/dev/udp/": "/dev/udp/",
		"sudo x": "sudo", "su root": "(su)", "chmod 755 x": "chmod", "chmod +s x": "chmod", "chown x": "chown",
		"chroot": "chroot", "nsenter -t": "nsenter",
		"unshare": "unshare", "mount x": "mount", "umount": "umount", "docker run": "docker", "kubectl": "kubectl",
		"sysctl": "sysctl", "modprobe": "modprobe",
		"insmod x": "insmod", "rmmod": "rmmod", "iptables": "iptables", "nftables": "nftables",
		"base64 -d x | bash": "base64", "base64 x |  sh": "base64",
		"eval x": "eval", "python3 -c 'x'": "python", "python -c": "python", "perl -e x": "perl", "ruby -e x": "ruby",
		"crontab -e": "crontab", "/etc/cron.d": "/etc/cron",
		"systemctl": "systemctl", "service x": "service", "at now": "(at)", "echo x | at now": "(at)",
		"x; at -f y": "(at)", ":(){ :|: & };:": "fork bomb",
		"stress -c": "stress", "stress-ng": "stress", "xmrig": "xmrig", "minerd": "minerd", "cpuminer": "cpuminer",
		"echo $AWS_KEY": "$AWS_", "$SECRET": "$SECRET",
		"$TOKEN": "$TOKEN", "$PASSWORD": "$PASSWORD", "$API_KEY": "$API_KEY",
	} {
		if got := inspect([]byte(trapLine + bad + "\n")); !strings.Contains(got, reason) {
			t.Errorf("%q: %q, want %q", bad, got, reason)
		}
	}
	for text, reason := range map[string]string{
		"echo no trap": "no exit trap", "trap x EXIT": ".orchestrator.exit", "trap .orchestrator.exit": "EXIT",
		"# .orchestrator.exit EXIT": "trap",
		"\xff" + trapLine:           "UTF-8", trapLine + strings.Repeat("x", MaxScript): "too large",
		"": "no exit trap",
	} {
		if got := inspect([]byte(text)); !strings.Contains(got, reason) {
			t.Errorf("%.40q: %q, want %q", text, got, reason)
		}
	}
	// The first match in the original's order.
	if got := inspect([]byte("sudo curl /etc/passwd; rm -rf /")); !strings.Contains(got, "destructive rm") {
		t.Error(got)
	}
}

func TestPolicy(t *testing.T) {
	for policy, refused := range map[Policy]bool{Off: false, "": false, Warn: false, Legacy: true} {
		v, err := policy.Check(strings.NewReader("sudo x"))
		if err != nil || v.Refused != refused || (v.Reason == "") != (policy == Off || policy == "") {
			t.Errorf("%q: %v %v", policy, v, err)
		}
		if v, err := policy.Check(strings.NewReader(trapLine)); err != nil || v != (Verdict{}) {
			t.Errorf("%q: %v %v", policy, v, err)
		}
		if v, err := policy.Check(nil); err != nil || !v.Refused || v.Reason == "" {
			t.Errorf("%q without a script: %v %v", policy, v, err)
		}
	}
	broken := errors.New("broken disk")
	if _, err := Legacy.Check(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if v, err := Legacy.Check(strings.NewReader(strings.Repeat("x", MaxScript+100))); err != nil ||
		v.Reason != "script too large" {
		t.Error(v, err)
	}
}

// The worst that a script can do to the check is to be large and full of words that almost match.
func TestInspectIsBounded(t *testing.T) {
	script := []byte(strings.Repeat("armrm dd eval python perl ruby base64 chmod service su at if=/dev/ of=/dev curly xcurl\n", MaxScript/8/88))
	start := time.Now()
	inspect(script)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("%d bytes took %v", len(script), took)
	}
}

func TestInjectTrap(t *testing.T) {
	line := string(InjectTrap(nil))
	for script, want := range map[string]string{
		"#!/bin/bash\necho x\n": "#!/bin/bash\n" + line + "echo x\n",
		"#!/bin/bash":           "#!/bin/bash\n" + line,
		"echo x":                line + "echo x",
		"\n#!/bin/bash\n":       line + "\n#!/bin/bash\n",
	} {
		if got := string(InjectTrap([]byte(script))); got != want {
			t.Errorf("%q became %q", script, got)
		}
		if reason := inspect(InjectTrap([]byte(script))); reason != "" {
			t.Errorf("%q is still refused: %s", script, reason)
		}
	}
	has := []byte("#!/bin/bash\n" + trapLine)
	if got := InjectTrap(has); !bytes.Equal(got, has) {
		t.Errorf("a script with the trap became %q", got)
	}
}

// The trap writes the exit code where the script began, wherever it went.
func TestInjectedTrapWorks(t *testing.T) {
	for script, want := range map[string]string{"cd /\nexit 3\n": "3\n", "true": "0\n", "#!/bin/bash\nfalse": "1\n"} {
		dir := t.TempDir() + "/a b'c"
		run := exec.Command("bash", "-c", `mkdir "$1" && cd "$1" && cat >run.sh && bash "$PWD/run.sh"; cat "$1/.orchestrator.exit"`, "x", dir)
		run.Stdin = bytes.NewReader(InjectTrap([]byte(script)))
		if out, err := run.Output(); err != nil || string(out) != want {
			t.Errorf("%q: %q %v", script, out, err)
		}
	}
}
