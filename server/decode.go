package server

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/transfer"
)

// Bounds of a JSON body.
const (
	maxDepth = 64
	maxKeys  = 10_000 // of one object
)

// blanks are the characters that JSON allows between values (RFC 8259 section 2).
const blanks = " \t\r\n"

// Body is [Decode] for an operation without parameters: any parameter is refused.
func Body[T any](r *http.Request, required bool) (T, error) {
	if r.URL.RawQuery != "" {
		if err := Params(r).Err(); err != nil {
			var none T
			return none, err
		}
	}
	return Decode[T](r, required)
}

// bodies are buffers for the bodies of requests by workers.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// bodyBy is [Body] for the requests of workers, which limit the throughput of the API. read reads the texts that
// workers usually send as Strict does, and returns false for all others.
func bodyBy[T any](r *http.Request, read func([]byte, *T) bool) (v T, err error) {
	const most = 1 << 20 // bytes of a buffer that is kept
	if r.URL.RawQuery != "" || r.ContentLength < 0 || r.ContentLength > most || !isJSON(r.Header.Get("Content-Type")) {
		return Body[T](r, true)
	}
	buffer := bodies.Get().(*bytes.Buffer)
	buffer.Reset()
	buffer.Grow(int(r.ContentLength) + bytes.MinRead) // so that reading the end needs no more
	defer bodies.Put(buffer)
	if _, err := buffer.ReadFrom(r.Body); err != nil {
		return v, BodyError(err)
	}
	if read(buffer.Bytes(), &v) {
		return v, nil
	}
	var all T
	return all, Strict(buffer.Bytes(), &all)
}

// isJSON reports whether a header Content-Type has the media type application/json. The type has no charset (RFC 8259
// section 11), but some clients send that of every JSON text.
func isJSON(header string) bool {
	const usual = "application/json"
	if header == usual {
		return true
	}
	media, params, err := mime.ParseMediaType(header)
	charset, named := params["charset"]
	return err == nil && media == usual && (!named || strings.EqualFold(charset, "utf-8"))
}

// Decode reads a JSON body strictly: one value, no unknown and no repeated members, bounded depth, the right media
// type. An empty body is the zero value if none is required.
func Decode[T any](r *http.Request, required bool) (T, error) {
	return DecodeAs[T](r, required, func(text []byte) []byte { return text })
}

// DecodeAs is decode of what a function makes of the body.
func DecodeAs[T any](r *http.Request, required bool, standard func([]byte) []byte) (T, error) {
	var v T
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return v, BodyError(err)
	}
	if len(bytes.Trim(text, blanks)) == 0 && !required {
		return v, nil
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return v, problem.Refuse(http.StatusUnsupportedMediaType, job.Invalid,
			"the body must be application/json, not %.100q", r.Header.Get("Content-Type"))
	}
	if err := checkCharacters(text); err != nil { // of the body itself: standard may have decoded it
		return v, err
	}
	return v, Strict(standard(text), &v)
}

func BodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) || errors.Is(err, transfer.ErrCut) || job.IsFull(err) {
		return err
	}
	return job.Errorf(job.Invalid, "read", "", "the body: %w", err)
}

// Strict decodes a JSON text of hostile origin. The error is of kind Invalid.
func Strict[T any](text []byte, into *T) error {
	if err := checkCharacters(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return job.Errorf(job.Invalid, "decode", "", "JSON: %w", explained(err))
	}
	end := d.InputOffset()
	if rest := bytes.Trim(text[end:], blanks); len(rest) > 0 {
		return job.Errorf(job.Invalid, "decode", "", "JSON: something stands behind the value, at byte %d", end)
	}
	if text = text[:end]; string(bytes.TrimLeft(text, blanks)) == "null" {
		return job.Errorf(job.Invalid, "decode", "", "JSON: the value is null")
	}
	s := &scanner{text: text}
	if err := s.value(1); err != nil {
		return job.Errorf(job.Invalid, "decode", "", "JSON: %w", err)
	}
	return nil
}

// checkCharacters refuses a JSON text with bytes or escapes that are no characters (RFC 8259 sections 8.1 and 8.2). The
// decoder replaces them by U+FFFD, so that two keys become one. Raw values keep them, and other readers refuse those.
func checkCharacters(text []byte) error {
	if !utf8.Valid(text) {
		return job.Errorf(job.Invalid, "decode", "", "JSON: the text is not UTF-8")
	}
	if at := halfPair(text); at >= 0 {
		return job.Errorf(job.Invalid, "decode", "", "JSON: %s is half of a surrogate pair, at byte %d",
			text[at:at+6], at)
	}
	return nil
}

// halfPair returns where the first escape is that is half of a surrogate pair, or -1. In JSON, only strings have a
// backslash.
func halfPair(text []byte) int {
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\\')
		if n < 0 {
			break
		}
		at += n
		first := escaped(text[at:])
		switch {
		case !utf16.IsSurrogate(first):
			at += 2
		case utf16.DecodeRune(first, escaped(text[at+6:])) == unicode.ReplacementChar:
			return at
		default:
			at += 12
		}
	}
	return -1
}

// escaped returns the number of the escape \uXXXX with which a text begins, or 0.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0 // the decoder refuses it
	}
	return rune(n)
}

// explained returns an error of the decoder without names of Go.
func explained(err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	var clock *time.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("there is no value")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the text ends before the value")
	case errors.As(err, &syntax):
		return fmt.Errorf("%w at byte %d", err, syntax.Offset)
	case errors.As(err, &mismatch):
		return fmt.Errorf("%s must be %s, not %s", cmp.Or(mismatch.Field, "the value"), named(mismatch.Type),
			mismatch.Value)
	case errors.As(err, &clock):
		return fmt.Errorf("%.100s is no time as in RFC 3339, such as 2026-01-31T12:00:00Z", clock.Value)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// named returns how JSON names the values of a type.
func named(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number of its range"
}

// scanner walks over a text that the decoder has accepted and finds what it lets pass: repeated members, which two
// readers may understand differently, and depth.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(blanks, s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) value(depth int) error {
	s.space()
	switch c := s.text[s.at]; c {
	case '{', '[':
		if depth > maxDepth {
			return fmt.Errorf("it is nested deeper than %d", maxDepth)
		}
		s.at++
		return s.members(c, depth)
	case '"':
		s.str()
	default:
		for s.at < len(s.text) && !bytes.ContainsRune([]byte(",]} \n\t\r"), rune(s.text[s.at])) {
			s.at++
		}
	}
	return nil
}

// members walks over an object or an array up to its end.
func (s *scanner) members(open byte, depth int) error {
	var names keys
	for {
		s.space()
		switch s.text[s.at] {
		case '}', ']':
			s.at++
			return nil
		case ',':
			s.at++
			continue
		}
		if open == '{' {
			if err := names.add(s.str()); err != nil {
				return err
			}
			s.space()
			s.at++ // the colon
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
}

// str walks over a string and gives it with its quotes.
func (s *scanner) str() []byte {
	from := s.at
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return s.text[from:s.at]
}

// keys are the names of one object as the decoder compares them: without regard to case.
type keys struct {
	few  [16][]byte
	n    int
	many map[string]bool
}

func (k *keys) add(quoted []byte) error {
	name := folded(quoted)
	seen := k.many[string(name)]
	for i := 0; i < min(k.n, len(k.few)) && !seen; i++ {
		seen = bytes.Equal(k.few[i], name)
	}
	if seen {
		return fmt.Errorf("the member %.100s stands there twice", quoted)
	}
	if k.n < len(k.few) {
		k.few[k.n] = name
	} else {
		if k.many == nil {
			k.many = map[string]bool{}
		}
		k.many[string(name)] = true
	}
	if k.n++; k.n > maxKeys {
		return fmt.Errorf("an object has more than %d members", maxKeys)
	}
	return nil
}

// folded returns a name as the decoder compares it. Plain lower-case names, which is nearly all, are not copied.
func folded(quoted []byte) []byte {
	name := quoted[1 : len(quoted)-1]
	for _, c := range name {
		if c == '\\' || c >= 'A' && c <= 'Z' || c >= 0x80 {
			var text string
			if json.Unmarshal(quoted, &text) != nil {
				return name // no text; the decoder refuses it
			}
			return []byte(strings.ToLower(strings.ToUpper(text)))
		}
	}
	return name
}

// MostNote is how many bytes a reason may have.
const MostNote = 4096

// CheckText refuses a text with control characters, one that is no UTF-8, and one of more than most bytes.
func CheckText(name, text string, most int) error {
	switch {
	case len(text) > most:
		return job.Errorf(job.Invalid, "request", "", "%s is longer than %d bytes", name, most)
	case !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return job.Errorf(job.Invalid, "request", "", "%s has a control character", name)
	}
	return nil
}
