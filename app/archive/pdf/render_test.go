package pdf

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/edge/sandbox"
)

const report = `<!DOCTYPE html><html lang="de"><head><meta charset="utf-8"><title>Prüfung</title>` +
	`<style>@page{size:letter}</style></head><body><h1>Größe √2 – α</h1><p>Answer</p>` +
	`<script>document.body.append('SCRIPT RAN '.repeat(9999))</script>` +
	`<iframe src="file:///etc/passwd"></iframe><img src="https://example.org/x.png"></body></html>`

// real is a renderer with the programs of this machine.
func real(t *testing.T, o Options) *Renderer {
	t.Helper()
	box, err := sandbox.Open(t.Context(), sandbox.Options{Tier: sandbox.Require, Name: "stagepost-pdftest"})
	if err != nil {
		t.Skip("no sandbox confines commands on this machine:", err)
	}
	t.Cleanup(func() { _ = box.Close() })
	r, err := Find(box, o)
	if err != nil {
		t.Skip(err)
	}
	return r
}

func render(t *testing.T, r *Renderer, p Page, document string) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	err := r.Render(t.Context(), t.TempDir(), p, strings.NewReader(document), &out)
	return out.Bytes(), err
}

// TestRender prints a document by the real programs: PDF/A-3b with its fonts, the page of the order and not that of the
// document, no script and no other file, and the same bytes again.
func TestRender(t *testing.T) {
	r := real(t, Options{})
	p := Page{Paper: "A5", Title: "attempt-2-müller", Images: &Images{Width: 200, Height: 200, Quality: 50}}
	first, err := render(t, r, p, report)
	if err != nil {
		t.Fatal(err)
	}
	again, err := render(t, r, p, report)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, again) {
		t.Error("the same document gives other bytes")
	}
	for _, want := range []string{"pdfaid:part='3'", "GTS_PDFA1", "attempt-2-m_ller", "/FontFile"} {
		if !bytes.Contains(first, []byte(want)) {
			t.Errorf("the file lacks %s", want)
		}
	}
	if !bytes.Contains(first, []byte("/MediaBox [0 0 41")) && !bytes.Contains(first, []byte("/MediaBox [0 0 42")) {
		t.Error("the page is not A5")
	}
	if n := bytes.Count(first, []byte("/Type/Page/")); n != 1 {
		t.Errorf("it has %d pages: a script ran", n)
	}
	if path, err := exec.LookPath("pdftotext"); err == nil {
		cmd := exec.CommandContext(t.Context(), path, "-", "-")
		cmd.Stdin = bytes.NewReader(first)
		text, err := cmd.Output()
		if err != nil || !bytes.Contains(text, []byte("Größe √2 – α")) || bytes.Contains(text, []byte("root:")) {
			t.Errorf("got %s, %v", text, err)
		}
	}
}

// TestLimits: a document that takes too long or too much is an error that names the limit.
func TestLimits(t *testing.T) {
	r := real(t, Options{Timeout: 1, MaxHTML: 4096})
	_, err := render(t, r, Page{}, report)
	if err == nil || !strings.Contains(err.Error(), "Chromium") {
		t.Errorf("got %v", err)
	}
	var e *Error
	_, err = render(t, r, Page{}, strings.Repeat("x", 5000))
	if !errors.As(err, &e) || e.Temporary() || e.Cause() != CauseDocument {
		t.Errorf("got %v", err)
	}
}

func TestCheckDocument(t *testing.T) {
	for text, want := range map[string]error{
		"<p>Answer</p>":                          nil,
		`<img src="data:image/png;base64,AA==">`: nil,
		"":                                       ErrEmpty,
		"<title>Report</title><style>p{}</style> \n ":                                 ErrEmpty,
		"<script>document.write(1)</script>":                                          ErrEmpty,
		`<p>Log in</p><form><input type="hidden" name="logintoken" value="x"></form>`: ErrLogin,
		`<body id="page-login-index" class="x">Log in</body>`:                         ErrLogin,
		`<p>&lt;input name="logintoken"&gt;</p>`:                                      nil,
	} {
		if err := CheckDocument(strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", text, err, want)
		}
	}
}

func FuzzCheckDocument(f *testing.F) {
	f.Add(report)
	f.Add("<input name=logintoken")
	f.Fuzz(func(t *testing.T, text string) {
		err := CheckDocument(strings.NewReader(text))
		if err != nil && !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrLogin) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestPage(t *testing.T) {
	for _, name := range Papers() {
		for _, landscape := range []bool{false, true} {
			if err := (&Page{Paper: name, Landscape: landscape}).Check(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, p := range []Page{
		{Paper: "A7"}, {Paper: "a4"}, {Margins: &Margins{Top: -1}}, {Margins: &Margins{Left: 105, Right: 100}},
		{Images: &Images{}}, {Images: &Images{Width: 1, Height: 1, Quality: 101}},
	} {
		if err := p.Check(); !errors.Is(err, ErrPage) {
			t.Errorf("%+v: got %v", p, err)
		}
	}
	p := Page{Paper: "A4", Landscape: true, Title: `</title><script>1`}
	if got := p.prelude(); !strings.Contains(got, "size:297mm 210mm") || strings.Contains(got, "<script") {
		t.Error(got)
	}
}

// unconfined is a sandbox that confines nothing.
type unconfined struct{ Sandbox }

func (unconfined) Tier() string { return sandbox.None }

type confined struct{ Sandbox }

func (confined) Tier() string { return sandbox.Native }

// TestFind: what is missing is named with the command that installs it; without confinement nothing is printed.
func TestFind(t *testing.T) {
	var e *Error
	if _, err := Find(unconfined{}, Options{}); !errors.As(err, &e) || !strings.Contains(err.Error(), "sandbox") {
		t.Errorf("got %v", err)
	}
	_, err := Find(confined{}, Options{Chromium: "/no/chromium", Ghostscript: "/no/gs"})
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "apt-get install chromium ghostscript") ||
		e.Cause() != CauseMissing || e.Temporary() {
		t.Errorf("got %v", err)
	}
}

// TestFinish: a file that is not complete, or not PDF/A, is refused; the identifier follows from the content.
func TestFinish(t *testing.T) {
	file := func(id string) []byte {
		return []byte("%PDF-1.7\npdfaid:part='3' pdfaid:conformance='B'\n/ID [<" + id + "><" + id + ">]\n%%EOF\n")
	}
	one, err := Normalize(file(strings.Repeat("A", 32)))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Normalize(file(strings.Repeat("B", 32)))
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("got %s and %s, %v", one, two, err)
	}
	for _, old := range []string{"%PDF-", "pdfaid:part='3'", "pdfaid:conformance='B'", "/ID", "%%EOF"} {
		if _, err := Normalize(bytes.Replace(file(strings.Repeat("A", 32)), []byte(old), []byte("x"), 1)); err == nil {
			t.Errorf("a file without %s is accepted", old)
		}
	}
}
