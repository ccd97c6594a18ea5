package moodle

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle/page"
)

type document = page.Document

func plainText(text string) string { return page.PlainText(text) }

// putPage writes a document. Images of the Moodle become part of it.
func (s *Source) putPage(ctx context.Context, out source.Out, name string, o source.Origin, d document) error {
	r := page.Renderer{Base: s.c.base, Image: s.image}
	text, err := r.Render(ctx, d)
	if err != nil {
		return err
	}
	return putBytes(ctx, out, name, "text/html; charset=utf-8", o, text)
}

const maxImage = 32 << 20

// image gives an image of the Moodle as a data URL. It gives nothing for images of other servers and for missing ones.
func (s *Source) image(ctx context.Context, raw string) (string, error) {
	u, err := s.c.fileURL(raw)
	if err != nil || !strings.Contains(u.Path, "pluginfile.php") {
		return "", nil
	}
	var body bytes.Buffer
	var f file
	err = repeat(func() (err error) {
		body.Reset()
		f, err = s.c.download(ctx, raw, &limitedWriter{w: &body, left: maxImage})
		return err
	})
	var failed *source.Error
	switch {
	case errors.As(err, &failed) && !failed.Transient:
		return "", nil // the page shows its alternative text, and its address remains in data-src
	case err != nil:
		return "", err
	case !strings.HasPrefix(f.Type, "image/"):
		return "", nil
	}
	return "data:" + f.Type + ";base64," + base64.StdEncoding.EncodeToString(body.Bytes()), nil
}

type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, &source.Error{Op: "image", Err: fmt.Errorf("it has more than %d bytes", maxImage)}
	}
	return l.w.Write(p)
}

func htmlEscape(text string) string { return template.HTMLEscapeString(text) }

// when writes a time; nothing for none.
func when(seconds int64) string {
	if seconds <= 0 {
		return ""
	}
	return stamp(seconds).Format(time.RFC3339)
}

// text writes a value of JSON for people.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// safePath makes a relative path of a file's path and name.
func safePath(dir, name string) string {
	var out []string
	for part := range strings.SplitSeq(dir, "/") {
		if part != "" {
			out = append(out, source.SafeName(part))
		}
	}
	return path.Join(append(out, source.SafeName(name))...)
}
