package wire

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseID reads an id as Rust parses a u32: digits with leading zeros and one plus sign if need be. The error is the
// text that the original answers with; segment is as it stands in the request line.
func parseID(segment string) (id uint32, wrong string) {
	text, err := url.PathUnescape(segment)
	if err != nil {
		text = segment // a lone % stays as it is
	}
	if !utf8.ValidString(text) {
		return 0, "Invalid URL: Invalid UTF-8 in `id`"
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 32)
	if err != nil {
		return 0, "Invalid URL: Cannot parse `" + text + "` to a `u32`"
	}
	return uint32(n), ""
}

// parseUser reads a user's number as Rust parses an i32.
func parseUser(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil
}

// route is what a path leads to. The pattern ends in "/{id}" where one more segment follows, which must not be empty.
type route struct {
	method  string // GET includes HEAD
	pattern string
	plain   http.HandlerFunc
	byID    func(w http.ResponseWriter, r *http.Request, id uint32)
}

// router answers 404 and 405 with empty bodies and redirects nothing, unlike http.ServeMux. Paths are compared as they
// stand in the request line.
type router []route

func (rs router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	for _, one := range rs {
		segment, fits := one.fits(path)
		if !fits {
			continue
		}
		if allow := one.method; r.Method != allow && !(allow == http.MethodGet && r.Method == http.MethodHead) {
			if allow == http.MethodGet {
				allow = "GET,HEAD"
			}
			w.Header().Set("Allow", allow)
			answerEmpty(w, http.StatusMethodNotAllowed)
			return
		}
		if one.plain != nil {
			one.plain(w, r)
			return
		}
		id, wrong := parseID(segment)
		if wrong != "" {
			answer(w, http.StatusBadRequest, textMedia, []byte(wrong))
			return
		}
		one.byID(w, r, id)
		return
	}
	answerEmpty(w, http.StatusNotFound)
}

func (one route) fits(path string) (segment string, ok bool) {
	if one.byID == nil {
		return "", path == one.pattern
	}
	segment, ok = strings.CutPrefix(path, strings.TrimSuffix(one.pattern, "{id}"))
	return segment, ok && segment != "" && !strings.Contains(segment, "/")
}
