package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/cli"
)

// attack is what a job may write: it sets the clipboard (OSC 52), clears the screen, does so with the C1 characters
// too, turns text around, and hides what was before.
const attack = "a\x1b]52;c;cm0gLXJmIH4=\x07b\x1b[2J\u009b31m\u009d0;t\u009c\u202etxt\u2066\u061c\u2028\x7f\x00\rshown"

// bytesAttack has the same as single bytes, which are no UTF-8, and the end of a character that never comes.
const bytesAttack = attack + "\x9b31m\x9d52;c;eA==\x9c\xff\r\nä\n\xe2\x80"

// attacker is a server all of whose texts are hostile.
func attacker(t *testing.T) string {
	t.Helper()
	quoted, err := json.Marshal(attack)
	if err != nil {
		t.Fatal(err)
	}
	text := string(quoted)
	raw := `{"said":"` + "\u009b31m\u202ex\u007f" + `"}` // JSON may have these characters as they are
	answers := map[string]string{
		"/api/v1/jobs/ing_00000000000000000000000001":     `{"id":"ing_00000000000000000000000001","kind":"ingest","state":"Failed","ended":true,"message":` + text + `,"data":` + raw + `}`,
		"/api/v1/jobs/ing_00000000000000000000000001/log": `{"lines":[{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":` + text + `,"attrs":` + raw + `}],"next":9}`,
		"/api/v1/jobs/ing_00000000000000000000000001/history": `{"history":[{"seq":1,"event":"begin","cause":` +
			text + `,"note":` + text + `}]}`,
		"/api/v1/ingest/jobs/ing_00000000000000000000000001/files": `{"files":[{"path":` + text +
			`,"state":"stored","type":` + text + `}]}`,
		"/api/v1/flows/flo_00000000000000000000000001": `{"name":` + text +
			`,"factory":"f","job":{"id":"flo_00000000000000000000000001","state":"FAILURE","ended":true,"message":` +
			text + `},"awaits":[],` +
			`"outline":{"kind":"flow","name":` + text + `,"items":[{"kind":"task","name":` + text + `}]},` +
			`"atoms":[{"name":` + text + `,"kind":"task","state":"FAILURE","intention":"EXECUTE","failure":{"type":` +
			text + `,"message":` + text + `}}]}`,
		"/api/v1/compute/jobs/cmp_00000000000000000000000001": `{"id":"cmp_00000000000000000000000001","service":"s","state":"Completed","ended":true,"name":` + text + `}`,
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch answer, known := answers[r.URL.Path]; {
		case known:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		case strings.HasSuffix(r.URL.Path, "/logs"), strings.HasSuffix(r.URL.Path, "/manifest"),
			strings.Contains(r.URL.Path, "/files/"), strings.HasSuffix(r.URL.Path, "/report"):
			_, _ = io.WriteString(w, bytesAttack)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"title":"Conflict","status":409,"kind":"refused","detail":`+text+`}`)
		}
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// called gives what a call prints, on terminals or into pipes.
func called(t *testing.T, terminal bool, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	c := newCall(strings.NewReader(""), &o, &e)
	if terminal {
		for _, p := range []*cli.Printer{c.Out, c.Err} {
			p.Terminal, p.Mode = true, cli.ModeTable
		}
	}
	c.Run(args)
	return o.String(), e.String()
}

// controls gives the characters of a text that control a terminal.
func controls(text string) (found []string) {
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && unicode.IsControl(r) ||
			unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' {
			found = append(found, text[:n])
		}
		text = text[n:]
	}
	return found
}

// TestHostileOutput: no command passes control characters of others on to a terminal. Into a pipe the bytes of files
// and output go as they are: the control.
func TestHostileOutput(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	url := attacker(t)
	for _, test := range []struct {
		args string
		raw  string // what a pipe gets on standard output
	}{
		{"logs cmp_00000000000000000000000001", bytesAttack + bytesAttack},
		{"logs cmp_00000000000000000000000001 --stream stdout", bytesAttack},
		{"logs cmp_00000000000000000000000001 --stream stdout -o plain", bytesAttack},
		{"compute results cmp_00000000000000000000000001 stdout --out -", bytesAttack},
		{"ingest manifest ing_00000000000000000000000001", bytesAttack},
		{"ingest report bat_00000000000000000000000001 --format csv-failed", bytesAttack},
		{"ingest report bat_00000000000000000000000001 --format html", bytesAttack},
		{"ingest report bat_00000000000000000000000001", ""},
		{"logs ing_00000000000000000000000001", ""},
		{"logs ing_00000000000000000000000001 -o plain", ""},
		{"show ing_00000000000000000000000001", ""},
		{"history ing_00000000000000000000000001", ""},
		{"ingest files ing_00000000000000000000000001", ""},
		{"flow show flo_00000000000000000000000001", ""},
		{"flow show flo_00000000000000000000000001 -o plain", ""},
		{"flow draw flo_00000000000000000000000001 --format text", ""},
		{"flow draw flo_00000000000000000000000001 --format mermaid", ""},
		{"flow draw flo_00000000000000000000000001 --format svg", ""},
		{"compute jobs", ""},
		{"list", ""},
		{"retry ing_00000000000000000000000001 --note x", ""},
	} {
		args := append(strings.Fields(test.args), "--server", url)
		out, errs := called(t, true, args...)
		if out+errs == "" {
			t.Errorf("%s: it prints nothing", test.args)
		}
		if found := controls(out + errs); len(found) > 0 {
			t.Errorf("%s: a terminal gets %q: %q", test.args, found, out+errs)
		}
		if test.raw == "" {
			continue
		}
		if strings.Contains(test.args, "--stream stdout") && !strings.Contains(out, `\x1b]52;c;`) {
			t.Errorf("%s: a terminal does not show what was escaped: %q", test.args, out)
		}
		piped, more := called(t, false, args...)
		if !strings.Contains(test.args, "--stream") && strings.HasPrefix(test.args, "logs") {
			piped += more // standard error has its own
		}
		if diff := cmp.Diff(test.raw, piped); diff != "" {
			t.Errorf("%s: a pipe gets something else: %s", test.args, diff)
		}
	}
}

// TestHostileJSON: JSON on a terminal has its control characters as \u, is the same value as in a pipe, and in a pipe
// is as it was: the control.
func TestHostileJSON(t *testing.T) {
	url := attacker(t)
	for _, test := range []struct {
		args string
		bare bool // in a pipe it has control characters as they are
	}{
		{"logs cmp_00000000000000000000000001 --stream stdout", false}, {"logs ing_00000000000000000000000001", true},
		{"show ing_00000000000000000000000001", true}, {"history ing_00000000000000000000000001", true},
		{"ingest files ing_00000000000000000000000001", true}, {"flow show flo_00000000000000000000000001", true},
		{"compute jobs", true}, {"retry ing_00000000000000000000000001 --note x", true}, {"list", true},
	} {
		args := append(strings.Fields(test.args), "-o", "json", "--server", url)
		out, errs := called(t, true, args...)
		shown := out + errs
		if found := controls(shown); len(found) > 0 {
			t.Errorf("%s: a terminal gets %q: %q", test.args, found, shown)
		}
		out, errs = called(t, false, args...)
		piped := out + errs
		if test.bare && len(controls(piped)) == 0 {
			t.Errorf("%s: the control has no control characters: %q", test.args, piped)
		}
		if diff := cmp.Diff(values(t, piped), values(t, shown)); diff != "" {
			t.Errorf("%s: a terminal gets another value: %s", test.args, diff)
		}
	}
}

// values reads JSON values that stand one after the other.
func values(t *testing.T, text string) (all []any) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		t.Fatalf("no JSON: %q", text)
	}
	return all
}

// TestShownInPieces: where output is cut does not matter.
func TestShownInPieces(t *testing.T) {
	for size := 1; size <= len(bytesAttack); size++ {
		var b bytes.Buffer
		p := &cli.Printer{Writer: &b, Mode: cli.ModeTable, Terminal: true, Width: 80}
		for rest := []byte(bytesAttack); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			n := min(size, len(rest))
			if written, err := p.Write(rest[:n]); err != nil || written != n {
				t.Fatal(written, err)
			}
		}
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		want := `a\x1b]52;c;cm0gLXJmIH4=\x07b\x1b[2J\u009b31m\u009d0;t\u009c\u202etxt\u2066\u061c\u2028\x7f\x00` +
			"\nshown" +
			`\x9b31m\x9d52;c;eA==\x9c\xff` + "\nä\n" + `\xe2\x80`
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Fatalf("pieces of %d: %s", size, diff)
		}
	}
}
