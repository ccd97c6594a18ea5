package moodle

import (
	"context"
	"encoding/csv"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/stagepost/stagepost/app/archive/source"
)

// putTable writes CSV (RFC 4180) in UTF-8.
func putTable(ctx context.Context, out source.Out, name string, o source.Origin, rows [][]string) error {
	o.Type = "text/csv; charset=utf-8"
	return out.Put(ctx, name, &o, func(w io.Writer) error {
		c := csv.NewWriter(w)
		c.UseCRLF = true
		return c.WriteAll(rows)
	})
}

func putBytes(ctx context.Context, out source.Out, name, kind string, o source.Origin, b []byte) error {
	o.Type = kind
	return out.Put(ctx, name, &o, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// secretPath finds keys of people in addresses of files. In JSON a slash can be written as \/.
var secretPath = regexp.MustCompile(`(tokenpluginfile\.php\\?/)[0-9A-Za-z]+`)

// putJSON writes JSON of the Moodle as it came, without keys.
func (s *Source) putJSON(ctx context.Context, out source.Out, name string, o source.Origin, b []byte) error {
	b = secretPath.ReplaceAll(b, []byte("${1}***"))
	return putBytes(ctx, out, name, "application/json", o, []byte(s.c.cleanText(string(b))))
}

// putAnswer keeps the answer of a function.
func (s *Source) putAnswer(ctx context.Context, out source.Out, name string, o source.Origin, b []byte) error {
	return s.putJSON(ctx, out, "metadata/source-responses/"+name+".json", o, b)
}

// publicURL gives the address of a file without parameters that can be secret.
func publicURL(u *url.URL) string {
	v := *u
	v.RawQuery = ""
	if file := u.Query().Get("file"); file != "" {
		v.RawQuery = url.Values{"file": {file}}.Encode()
	}
	return v.String()
}

// keep downloads a file of the Moodle.
func (s *Source) keep(ctx context.Context, out source.Out, name string, f content, person string) error {
	u, err := s.c.fileURL(f.URL)
	if err != nil {
		return &source.Error{Op: name, Err: err}
	}
	o := source.Origin{
		Name: strings.TrimPrefix(f.Path+f.Name, "/"), URL: publicURL(u), Type: f.MIME, Modified: stamp(f.Modified),
		Person: person,
	}
	return repeat(func() error {
		return out.Put(ctx, name, &o, func(w io.Writer) error {
			got, err := s.c.download(ctx, f.URL, w)
			o.SHA1 = got.SHA1 // which the bytes have
			return err
		})
	})
}
