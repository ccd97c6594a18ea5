// Package entered has what a person entered into a form that was refused, so that it is not lost.
package entered

import (
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Form is a refused form, filled in as it was sent, without files and passwords.
type Form struct {
	Action string
	Again  bool // it may be sent again from the page; else the texts are only shown
	Files  bool // it may have had files: it is not sent again, but filled in again
	Cut    bool // something was too long for the page
	Hidden []Field
	Texts  []Field
}

// Field is a value of a form.
type Field struct{ Name, Label, Value string }

// most bounds the bytes of a refused form that a page shows.
const most = 128 << 10

// FillIn is the field by which a form with files is filled in again: its route shows it instead of carrying it out.
const FillIn = "fill_in"

// typed are the fields of forms with texts that people write, with their labels.
var typed = map[string]string{"note": "Reason", "why": "Reason", "value": "Value", "actor": "Your name",
	"title": "Title", "command": "Command"}

// secret are the fields of forms that no page shows again.
var secret = []string{"password", "token", "secret"}

// Of returns a form that was refused with a problem; nil if it has no text. It may be sent again if another text,
// another moment or a sign-in can help. What asks for a confirmation is confirmed on its own page.
func Of(r *http.Request, p *api.Problem, values url.Values) *Form {
	f := &Form{Action: r.URL.EscapedPath(), Files: isMultipart(r), Cut: p.Status == http.StatusRequestEntityTooLarge}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(secret, name) {
			return nil
		}
		for _, value := range values[name] {
			if size+len(name)+len(value) > most {
				f.Cut = true
				continue
			}
			size += len(name) + len(value)
			if label := typed[name]; label != "" && value != "" {
				f.Texts = append(f.Texts, Field{name, label, value})
			} else {
				f.Hidden = append(f.Hidden, Field{Name: name, Value: value})
			}
		}
	}
	if len(f.Texts) == 0 {
		return nil
	}
	if f.Files {
		f.Hidden = append(f.Hidden, Field{Name: FillIn, Value: "yes"})
	}
	helps := p.Kind == job.Invalid || p.Kind == job.Unavailable ||
		p.Status == http.StatusUnauthorized && fromPage(r)
	f.Again = helps && !f.Cut && !values.Has("confirm")
	return f
}

// fromPage reports whether a browser states that a page of this server sent a request. What a page of another origin
// sends is refused before, but some programs state nothing.
func fromPage(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") == "same-origin"
}

func isMultipart(r *http.Request) bool {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media == "multipart/form-data"
}

// Read reads the fields of a form that was refused before its handler was reached: as far as a page shows them, and up
// to the first file.
func Read(r *http.Request) url.Values {
	media, with, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Method != http.MethodPost || err != nil {
		return nil
	}
	body := io.LimitReader(r.Body, most+1)
	switch media {
	case "application/x-www-form-urlencoded":
		text, err := io.ReadAll(body)
		return Parse(text, err != nil || len(text) > most)
	case "multipart/form-data":
		return readParts(multipart.NewReader(body, with["boundary"]))
	}
	return nil
}

// Parse reads the fields of a form from its body, or from the beginning of it.
func Parse(text []byte, cut bool) url.Values {
	if cut {
		i := strings.LastIndexByte(string(text), '&')
		text = text[:max(0, i)]
	}
	values, _ := url.ParseQuery(string(text)) // what is right in it
	return values
}

// readParts reads the fields before the first file.
func readParts(parts *multipart.Reader) url.Values {
	values := url.Values{}
	for {
		part, err := parts.NextPart()
		if err != nil || part.FileName() != "" {
			return values
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return values
		}
		if name := part.FormName(); name != "" {
			values[name] = append(values[name], string(text))
		}
	}
}

// Advice states what a person does with what was entered after a sign-in; "" where it is lost.
func (f *Form) Advice() string {
	switch {
	case f == nil:
		return ""
	case f.Again && f.Files:
		return "Sign in again in another window, which the link opens. Then open the form here, and choose the files " +
			"again."
	case f.Again:
		return "Sign in again in another window, which the link opens. Then send the form here again."
	}
	return "Sign in again in another window, which the link opens. Then enter it there again: it stays on this page."
}

// Button is the text of the button of the form.
func (f *Form) Button() string {
	if f.Files {
		return "Open the form"
	}
	return "Send it again"
}
