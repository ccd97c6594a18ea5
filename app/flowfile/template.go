package flowfile

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// hole is where a value is put into a text: "{name}". Braces around anything else are part of the text.
var hole = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]{0,199})\}`)

// template is a text with holes: texts[0], the value of names[0], texts[1] and so on.
type template struct {
	texts, names []string
}

func newTemplate(text string) template {
	t := template{}
	from := 0
	for _, at := range hole.FindAllStringSubmatchIndex(text, -1) {
		t.texts = append(t.texts, text[from:at[0]])
		t.names = append(t.names, text[at[2]:at[3]])
		from = at[1]
	}
	t.texts = append(t.texts, text[from:])
	return t
}

// lookup gives the value of a hole.
type lookup func(name string) (any, error)

// fill puts values in; escape gets each with the number of the hole.
func (t template) fill(value lookup, escape func(i int, v any) (string, error)) (string, error) {
	var b strings.Builder
	b.WriteString(t.texts[0])
	for i, name := range t.names {
		v, err := value(name)
		if err != nil {
			return "", err
		}
		text, err := escape(i, v)
		if err != nil {
			return "", fmt.Errorf("{%s}: %w", name, err)
		}
		b.WriteString(text)
		b.WriteString(t.texts[i+1])
	}
	return b.String(), nil
}

// address is the template of a URL.
type address struct {
	template
	query int // number of the first hole behind "?"
}

// newAddress checks where the holes of a URL are.
func newAddress(text string) (address, error) {
	a := address{template: newTemplate(text)}
	if strings.Contains(text, "#") {
		return a, fmt.Errorf("a URL that is requested has no fragment (#)")
	}
	base := text
	if a.texts[0] == "" && len(a.names) > 0 {
		if rest := a.texts[1]; rest != "" && rest[0] != '/' && rest[0] != '?' {
			return a, fmt.Errorf("behind a base {%s} comes / or ?", a.names[0])
		}
		base = "http://base" + text[len(a.names[0])+2:]
	}
	u, err := url.Parse(hole.ReplaceAllString(base, "x"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return a, fmt.Errorf("it is no URL that begins with http:// or https://")
	}
	if rest := strings.SplitN(base, "/", 4); hole.MatchString(strings.SplitN(rest[2], "?", 2)[0]) {
		return a, fmt.Errorf("the host of a URL stands in the file; only the whole base may be a value: {base}/path")
	}
	a.query = len(a.names)
	for i, text := range a.texts {
		if strings.Contains(text, "?") {
			a.query = i
			break
		}
	}
	return a, nil
}

// fill gives the URL. A value cannot leave the segment, or the part of the query, that it stands in.
func (a address) fill(value lookup) (string, error) {
	text, err := a.template.fill(value, func(i int, v any) (string, error) {
		text, err := textOf(v)
		switch {
		case err != nil:
			return "", err
		case i >= a.query:
			return url.QueryEscape(text), nil
		case i == 0 && a.texts[0] == "":
			return base(text)
		case text == "":
			return "", fmt.Errorf("it is empty, and a segment of a path cannot be")
		}
		return url.PathEscape(text), nil
	})
	if err != nil {
		return "", err
	}
	path, _, _ := strings.Cut(text, "?")
	for _, segment := range strings.Split(path, "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return "", fmt.Errorf("a segment of the path would be %q", plain)
		}
	}
	return text, nil
}

// base checks a value that is the beginning of a URL.
func base(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		strings.ContainsAny(text, "?#\\ \t\r\n") {
		return "", fmt.Errorf("it is no base of a URL: http:// or https://, a host, and perhaps a path")
	}
	return strings.TrimRight(text, "/"), nil
}

// document is the template of a JSON text.
type document struct {
	template
	inside []bool // of a quoted text, by hole
}

// newDocument checks that a text with holes is JSON whatever is put in.
func newDocument(text string) (document, error) {
	d := document{template: newTemplate(text)}
	quoted, escaped := false, false
	var sample strings.Builder
	for i, part := range d.texts {
		for _, c := range []byte(part) {
			switch {
			case escaped:
				escaped = false
			case c == '\\' && quoted:
				escaped = true
			case c == '"':
				quoted = !quoted
			}
		}
		sample.WriteString(part)
		if i == len(d.names) {
			break
		}
		if escaped {
			return d, fmt.Errorf("there is a backslash before {%s}", d.names[i])
		}
		d.inside = append(d.inside, quoted)
		if !quoted {
			sample.WriteString("0")
		}
	}
	if _, err := decodeJSON([]byte(sample.String())); err != nil && len(d.names) > 0 {
		return d, fmt.Errorf("a text with {name} in it must be JSON, and this is not: %v", err)
	}
	return d, nil
}

// fill gives the JSON text.
func (d document) fill(value lookup) (string, error) {
	return d.template.fill(value, func(i int, v any) (string, error) {
		if !d.inside[i] {
			text, err := compactJSON(v)
			return string(text), err
		}
		text, err := textOf(v)
		if err != nil {
			return "", err
		}
		quoted, err := compactJSON(text)
		if err != nil {
			return "", err
		}
		return string(quoted[1 : len(quoted)-1]), nil
	})
}

// whole is for texts that need no escaping: leaves of a JSON value, fields of a form.
func (t template) whole(value lookup) (string, error) {
	return t.fill(value, func(_ int, v any) (string, error) { return textOf(v) })
}

// header is for header fields: no value may begin another one.
func (t template) header(value lookup) (string, error) {
	return t.fill(value, func(_ int, v any) (string, error) {
		text, err := textOf(v)
		if err == nil && strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			err = fmt.Errorf("it holds control characters, which a header cannot")
		}
		return text, err
	})
}

// fillTree puts values into the leaves of a JSON value. A leaf that is nothing but one hole becomes the value itself,
// with its type.
func fillTree(v any, value lookup) (any, error) {
	switch v := v.(type) {
	case string:
		t := newTemplate(v)
		if len(t.names) == 1 && t.texts[0] == "" && t.texts[1] == "" {
			return value(t.names[0])
		}
		return t.whole(value)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			one, err := fillTree(v[i], value)
			if err != nil {
				return nil, err
			}
			out[i] = one
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) {
			one, err := fillTree(v[k], value)
			if err != nil {
				return nil, err
			}
			out[k] = one
		}
		return out, nil
	}
	return v, nil
}
