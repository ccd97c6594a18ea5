// Package policy is the check of run.sh that job-orchestrator makes.
package policy

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Policy is what is done with the original's check of run.sh. It searches for words, is easily deceived and refuses
// much that does no harm; isolation protects, not this. An original agent applies it in any case.
type Policy string

// The policies. Off inspects nothing.
const (
	Off    Policy = "off"
	Warn   Policy = "warn"
	Legacy Policy = "legacy"
)

// MaxScript is the size up to which the original reads a script.
const MaxScript = 20 << 20

// Verdict on a script. Reason is empty if there is nothing to report.
type Verdict struct {
	Refused bool // the job becomes Invalid
	Reason  string
}

// Check inspects run.sh; nil means that there is none, which no policy lets pass. The error is that of reading it.
func (p Policy) Check(script io.Reader) (Verdict, error) {
	if script == nil {
		return Verdict{true, "there is no run.sh"}, nil
	}
	if p != Warn && p != Legacy {
		return Verdict{}, nil
	}
	text, err := io.ReadAll(io.LimitReader(script, MaxScript+1))
	if err != nil {
		return Verdict{}, fmt.Errorf("run.sh: %w", err)
	}
	reason := inspect(text)
	return Verdict{p == Legacy && reason != "", reason}, nil
}

// inspect gives the reason for which an original agent would refuse the script, or "". The first match in its order
// counts, and comments are text as any other.
func inspect(script []byte) string {
	switch {
	case len(script) > MaxScript:
		return "script too large"
	case !utf8.Valid(script):
		return "script is not UTF-8"
	}
	for _, b := range blocked() {
		if b.in(script) {
			return "script contains a forbidden pattern: " + b.what
		}
	}
	for _, word := range trapWords {
		if !bytes.Contains(script, []byte(word)) {
			return "script has no exit trap: " + word + " is missing"
		}
	}
	return ""
}

// trapWords must all be in a script, or an original agent refuses it: it learns of a job's end from this file only.
var trapWords = []string{"trap", ".orchestrator.exit", "EXIT"}

// InjectTrap puts the trap after the first line if that begins with #!, else before everything. A script that has the
// three words already stays as it is. The script's own directory is remembered, since it may go elsewhere.
func InjectTrap(script []byte) []byte {
	missing := false
	for _, word := range trapWords {
		missing = missing || !bytes.Contains(script, []byte(word))
	}
	if !missing {
		return script
	}
	const trap = `__orchestrator_dir=$PWD; trap 'echo $? > "$__orchestrator_dir/.orchestrator.exit"' EXIT` + "\n"
	if !bytes.HasPrefix(script, []byte("#!")) {
		return append([]byte(trap), script...)
	}
	first, rest, _ := bytes.Cut(script, []byte("\n"))
	return slices.Concat(first, []byte("\n"+trap), rest)
}

// block is one entry of the list: a text, a whole word, or an expression.
type block struct {
	what    string
	literal string // any match contains it; the search for it is a hundred times faster than the expression
	word    bool
	re      *regexp.Regexp
}

func (b block) in(script []byte) bool {
	switch {
	case !bytes.Contains(script, []byte(b.literal)):
		return false
	case b.word:
		return hasWord(script, []byte(b.literal))
	}
	return b.re == nil || b.re.Match(script)
}

func hasWord(script, word []byte) bool {
	for from := 0; ; {
		n := bytes.Index(script[from:], word)
		if n < 0 {
			return false
		}
		from += n
		before, _ := utf8.DecodeLastRune(script[:from])
		after, _ := utf8.DecodeRune(script[from+len(word):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		from += len(word)
	}
}

// inWord is \w as the original's expressions have it. The ends of the text give utf8.RuneError, which is no letter.
func inWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc) || r == 0x200C || r == 0x200D
}

// The original's expressions know Unicode: white space and the borders of words are wider there than in package regexp.
const (
	unicodeSpace = `[\t\n\v\f\r\x{85}\p{Z}]`
	noLetter     = `[^\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}]`
)

// translate makes an expression of Go of one of the original. \b stands at its beginning, where no letter may precede,
// or behind a word, where none may follow.
func translate(expression string) *regexp.Regexp {
	rest, border := strings.CutPrefix(expression, `\b`)
	rest = strings.ReplaceAll(rest, `\b`, `(?:`+noLetter+`|\z)`)
	if border {
		rest = `(?:\A|` + noLetter + `)` + rest
	}
	return regexp.MustCompile(strings.ReplaceAll(rest, `\s`, unicodeSpace))
}

var blocked = sync.OnceValue(func() []block {
	var all []block
	add := func(what, literal, expression string) {
		all = append(all, block{what: what, literal: literal, re: translate(expression)})
	}
	words := func(what string, list ...string) {
		for _, word := range list {
			all = append(all, block{what: what + " (" + word + ")", literal: word, word: true})
		}
	}
	texts := func(what string, list ...string) {
		for _, text := range list {
			all = append(all, block{what: what + " (" + text + ")", literal: text})
		}
	}
	add("destructive rm", "rm", `rm\s+(-[a-zA-Z]*)?.*(/|~)`)
	words("makes a file system", "mkfs")
	add("dd to a device", "of=/dev", `dd\s+.*of=/dev`)
	add("dd from an endless device", "if=/dev/", `dd\s+.*if=/dev/(zero|urandom)`)
	texts("system file", "/etc/passwd", "/etc/shadow", "/etc/sudoers", "/proc/", "/sys/")
	add("keys (~/.ssh/)", "ssh/", `~/.ssh/`)
	texts("system file", "/root/", "/var/run/docker.sock")
	words("network", "curl", "wget", "nc", "ncat", "socat", "ssh", "scp", "sftp", "telnet", "rsync")
	texts("network", "/dev/tcp/", "/dev/udp/")
	words("other user", "sudo")
	add("other user (su)", "su", `su\s+`)
	add("rights (chmod)", "chmod", `chmod\s+[0-7]*[4-7][0-7]{2}|chmod\s+\+s`)
	words("rights", "chown")
	words("container", "chroot", "nsenter", "unshare", "mount", "umount", "docker", "kubectl")
	words("kernel", "sysctl", "modprobe", "insmod", "rmmod", "iptables", "nftables")
	add("hidden script (base64)", "base64", `base64.*\|\s*(bash|sh)`)
	add("hidden script (eval)", "eval", `\beval\s+`)
	add("hidden script (python -c)", "python", `\bpython[23]?\s+-c\b`)
	add("hidden script (perl -e)", "perl", `\bperl\s+-e\b`)
	add("hidden script (ruby -e)", "ruby", `\bruby\s+-e\b`)
	words("lasting process", "crontab")
	texts("lasting process", "/etc/cron")
	words("lasting process", "systemctl")
	add("lasting process (service)", "service", `\bservice\s+`)
	add("lasting process (at)", "at", `(?m:^|[;&|]{1,2}\s*)at(?:\s+|-|\b)`)
	add("fork bomb", ":(){", `:\(\)\{.*:\|:`)
	words("load", "stress", "stress-ng")
	words("miner", "xmrig", "minerd", "cpuminer")
	texts("secret", "$AWS_", "$SECRET", "$TOKEN", "$PASSWORD", "$API_KEY")
	return all
})
