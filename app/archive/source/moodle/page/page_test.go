package page_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/stagepost/stagepost/app/archive/source/moodle/page"
)

var base = &url.URL{Scheme: "https", Host: "moodle.example.org"}

func render(t testing.TB, d page.Document) string {
	t.Helper()
	r := page.Renderer{Base: base, Image: func(_ context.Context, address string) (string, error) {
		if strings.HasPrefix(address, "https://moodle.example.org/") {
			return "data:image/png;base64,AAAA", nil
		}
		return "", nil
	}}
	text, err := r.Render(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// loads finds what would run or load something.
var loads = regexp.MustCompile(`(?i)<(script|iframe|object|embed|link|base|svg|math|form|style>\s*@)|\son\w+\s*=|` +
	`\ssrc="(?:[^d]|d[^a])|url\(|href="(?:javascript|data|vbscript)|srcset=|formaction=|<meta http-equiv="refresh`)

// hostile are fragments of HTML that would run or load something.
var hostile = []string{
	`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `<iframe src="//x"></iframe>`, `<svg onload=alert(1)>`,
	`<a href="javascript:alert(1)">x</a>`, `<a href=" java&#10;script:alert(1)">x</a>`, `<base href="//evil/">`,
	`<form action="//evil"><input name=q><button formaction="//evil">go</button></form>`,
	`<link rel=stylesheet href=//x>`,
	`<style>@import "//x"</style>`, `<p style="background:url(//x)">x</p>`, `<object data="//x"></object>`,
	`<video src="//x" poster="//x"><source src="//x"></video>`, `<img srcset="//x 2x">`, `<math><mtext></mtext></math>`,
	`<meta http-equiv="refresh" content="0;url=//x">`, `<noscript><p title="</noscript><img src=x onerror=alert(1)>">`,
	`<template><script>alert(1)</script></template>`, `<body onload=alert(1)>`, `<!--><script>alert(1)</script>-->`,
	`</article></body><script>alert(1)</script>`, `<textarea></textarea><script>alert(1)</script>`,
	`<a href="data:text/html,<script>alert(1)</script>">x</a>`, `<select><option onclick=x()>o</option></select>`,
}

// TestHostile: nothing of a document runs or loads anything. The control is the fragment itself.
func TestHostile(t *testing.T) {
	for _, text := range hostile {
		out := render(t, page.Document{Title: text, Parts: []string{text, "<p>after</p>"}})
		if m := loads.FindString(body(out)); m != "" {
			t.Errorf("%s: %q in %s", text, m, body(out))
		}
		if !strings.Contains(out, "<p>after</p>") {
			t.Errorf("%s: it swallows the next part", text)
		}
	}
}

func body(document string) string {
	_, rest, _ := strings.Cut(document, "<body>")
	return rest
}

func FuzzRender(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out := render(t, page.Document{Title: "t", Parts: []string{text}})
		doc, err := html.Parse(strings.NewReader(out)) // as a browser reads it
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			switch n.Data {
			case "script", "iframe", "object", "embed", "link", "base", "svg", "math", "form":
				t.Fatalf("%q becomes an element %s", text, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" ||
					a.Key == "src" && !strings.HasPrefix(a.Val, "data:image/") {
					t.Fatalf("%q has %s=%q", text, a.Key, a.Val)
				}
			}
		}
	})
}

func TestDocument(t *testing.T) {
	out := render(t, page.Document{
		Title: "<b>Exam</b> &amp; more", Facts: [][2]string{{"Person", "A & B"}, {"Empty", ""}},
		Parts: []string{`<p class="qtext">1 < 2</p><a href="/course/view.php?id=5">c</a>` +
			`<img alt="x" src="https://moodle.example.org/pluginfile.php/1/a.png">`,
			`<input type="radio" value="1" checked>`},
		Files: []string{"attachments/a b#c.txt"},
	})
	for _, want := range []string{
		"<h1>Exam &amp; more</h1>", "<td>A &amp; B</td>", "1 &lt; 2",
		`href="https://moodle.example.org/course/view.php?id=5"`,
		`src="data:image/png;base64,AAAA"`, `disabled=""`,
		`href="attachments/a%20b%23c.txt"`, "Content-Security-Policy",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	if strings.Contains(out, "Empty") {
		t.Error("a row without a value is shown")
	}
	broken := errors.New("planned")
	r := page.Renderer{Base: base, Image: func(context.Context, string) (string, error) { return "", broken }}
	if _, err := r.Render(t.Context(), page.Document{Parts: []string{"<img src=x>"}}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	r.Image = nil
	if _, err := r.Render(t.Context(), page.Document{Parts: []string{"<img src=x>"}}); err != nil {
		t.Errorf("without images: %v", err)
	}
}

func TestWithoutClasses(t *testing.T) {
	const text = `<div class="que"><div class="outcome"><div class="a rightanswer">R<b class="history">H</b></div>` +
		`F</div></div>`
	for classes, want := range map[string]string{
		"":                    text,
		"rightanswer":         `<div class="que"><div class="outcome">F</div></div>`,
		"rightanswer history": `<div class="que"><div class="outcome">F</div></div>`,
		"history":             `<div class="que"><div class="outcome"><div class="a rightanswer">R</div>F</div></div>`,
		"answer":              text,
	} {
		if got := page.WithoutClasses(text, strings.Fields(classes)); got != want {
			t.Errorf("%q: got %s", classes, got)
		}
	}
}

// TestForm: a form gives what a browser would send.
func TestForm(t *testing.T) {
	doc, err := html.Parse(strings.NewReader(`<form><input name="other"></form><form action="/x?y=1">
<input type="hidden" name="box" value="0"><input type="checkbox" name="box" value="1" checked>
<input type="hidden" name="off" value="0"><input type="CheckBox" name="off" value="1">
<input type="checkbox" name="plain" checked><input type="checkbox" name="locked" value="1" checked disabled>
<input type="radio" name="r" value="1"><input type="radio" name="r" value="2" checked>
<select name="s"><option value="a">A<option value="b" selected>B</select>
<select name="first"><option value="c">C</select>
<textarea name="t"> some  text </textarea><input name="typeless" value="v"><input type="file" name="upload">
<input value="nameless"><input type="submit" name="go" value="Go"></form>`))
	if err != nil {
		t.Fatal(err)
	}
	f := page.FormWith(doc, "box")
	if f == nil || f.Action != "/x?y=1" {
		t.Fatalf("got %+v", f)
	}
	if got, want := f.Fields.Encode(), "box=1&first=c&off=0&plain=on&r=2&s=b&t=some+text&typeless=v"; got != want {
		t.Errorf("got %s", got)
	}
	if fmt.Sprint(f.Boxes, f.Buttons) != "map[box:1 off:1 plain:on] map[go:Go]" {
		t.Errorf("got %v, %v", f.Boxes, f.Buttons)
	}
	if page.FormWith(doc, "gone") != nil {
		t.Error("a form without the field is found")
	}
}

func FuzzForm(f *testing.F) {
	f.Add(`<form><input name="backup"><select name=x></form>`)
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Skip()
		}
		_ = page.FormWith(doc, "backup")
		_ = page.PlainText(text)
		_ = page.WithoutClasses(text, []string{"a"})
	})
}
