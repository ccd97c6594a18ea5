package wiretest

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// part is one part of a form as the original sees it.
type part struct {
	field, file string
	isFile      bool
	data        []byte
}

// readForm reads a whole form into memory, as the original's client does.
func readForm(r *http.Request) (parts []part, boundary bool, err error) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" || params["boundary"] == "" {
		return nil, false, nil
	}
	form := multipart.NewReader(r.Body, params["boundary"])
	for {
		p, err := form.NextRawPart()
		if err == io.EOF {
			return parts, true, nil
		}
		if err != nil {
			return nil, true, err
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return nil, true, err
		}
		one := part{data: data}
		one.file, one.isFile = parameter(p.Header.Get("Content-Disposition"), "filename")
		one.field, _ = parameter(p.Header.Get("Content-Disposition"), "name")
		parts = append(parts, one)
	}
}

// parameter finds name="value" with \" as the only escape, or a bare percent-encoded value.
func parameter(header, name string) (string, bool) {
	_, after, ok := strings.Cut(header, "; "+name+"=")
	if !ok {
		return "", false
	}
	if !strings.HasPrefix(after, `"`) {
		bare, _, _ := strings.Cut(after, ";")
		return percentDecoded(bare), true
	}
	after = after[1:]
	for i := range len(after) {
		if after[i] == '"' && (i == 0 || after[i-1] != '\\') {
			return strings.ReplaceAll(after[:i], `\"`, `"`), true
		}
	}
	return "", false
}

func percentDecoded(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		var c byte
		if n, _ := fmt.Sscanf(text[i:min(i+3, len(text))], "%%%02x", &c); n == 1 && i+2 < len(text) {
			b.WriteByte(c)
			i += 2
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// base is the last component of a name, or "file".
func base(name string) string {
	for {
		name = strings.TrimRight(name, "/")
		cut, ok := strings.CutSuffix(name, "/.")
		if !ok {
			break
		}
		name = cut
	}
	last := name[strings.LastIndexByte(name, '/')+1:]
	if last == "" || last == "." || last == ".." {
		return "file"
	}
	return last
}

func store(dir string, parts []part) (files int, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	for _, p := range parts {
		if !p.isFile {
			continue
		}
		files++
		if err := os.WriteFile(filepath.Join(dir, base(p.file)), p.data, 0o644); err != nil {
			return files, err
		}
	}
	return files, nil
}

// reply writes a body byte by byte as given.
func reply(w http.ResponseWriter, code int, media, body string) {
	if media != "" {
		w.Header().Set("Content-Type", media)
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(code)
	io.WriteString(w, body)
}

const (
	isJSON = "application/json"
	isText = "text/plain; charset=utf-8"
	isZIP  = "application/zip"

	noBoundary = "Invalid `boundary` for `multipart/form-data` request"
)
