// Package markup writes the texts of a server as parts of pages. Texts of strangers are escaped.
package markup

import (
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/printable"
	"github.com/stagepost/stagepost/job"
)

// JobPath is the path of the page of a job.
func JobPath(id job.ID) string { return "/jobs/" + url.PathEscape(string(id)) }

// ShortID is the end of an id, as the command line shows it: it is enough to find the job.
func ShortID(id job.ID) string { return string(id[max(0, len(id)-8):]) }

// Time is a time for people, whose line breaks between date and time alone; the script of the pages writes it in
// the local zone.
func Time(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` +
		t.Format("2\u00a0Jan\u00a02006, 15:04:05\u00a0UTC") + `</time>`)
}

// marked are the times, the ids of jobs and the commands in a sentence of the server.
var marked = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|` +
	`\b[a-z]+_[0-9A-HJKMNP-TV-Z]{26}\b|` + "`[^`]+`")

// Sentence is a sentence of the server, which may contain the texts of strangers: times are shown as elsewhere,
// ids are links, and commands can be copied.
func Sentence(text string) template.HTML {
	var b strings.Builder
	text = printable.Shown(text)
	at := 0
	for _, m := range marked.FindAllStringIndex(text, -1) {
		b.WriteString(template.HTMLEscapeString(text[at:m[0]]))
		word := text[m[0]:m[1]]
		at = m[1]
		if t, err := time.Parse(time.RFC3339, word); err == nil {
			b.WriteString(string(Time(t)))
			continue
		}
		if text, ok := strings.CutPrefix(word, "`"); ok {
			b.WriteString(string(code(strings.TrimSuffix(text, "`"))))
			continue
		}
		id := job.ID(word)
		fmt.Fprintf(&b, `<a href="%s" title="%s">…%s</a>`, template.HTMLEscapeString(JobPath(id)),
			template.HTMLEscapeString(word), template.HTMLEscapeString(ShortID(id)))
	}
	b.WriteString(template.HTMLEscapeString(text[at:]))
	return template.HTML(b.String())
}

// code is a text as a program reads it. Commands of this program have a button that copies them.
func code(text string) template.HTML {
	if strings.HasPrefix(text, "stagepost ") {
		return Copied("command", text)
	}
	return template.HTML("<code>" + template.HTMLEscapeString(text) + "</code>")
}

// Copied is a text with a button that copies it. what names the text.
func Copied(what, text string) template.HTML {
	text = template.HTMLEscapeString(text)
	return template.HTML(`<span class="command"><code>` + text + `</code>` +
		`<button type="button" class="copy js" hidden data-copy="` + text + `" aria-label="Copy the ` + what + ` ` +
		text + `">Copy</button></span>`)
}
