// Package byterange corrects what http.ServeContent does with ranges.
package byterange

import (
	"net/http"
	"strings"
)

// Satisfiable returns the request without suffixes of no bytes in its Range, which cannot be satisfied (RFC 9110,
// section 14.1.2). http.ServeContent answers them with a range whose end is before its beginning. If no range is left
// it is one behind the end of each file, which http.ServeContent refuses with 416.
func Satisfiable(r *http.Request) *http.Request {
	asked := r.Header.Get("Range")
	if !strings.Contains(asked, "-0") {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set("Range", withoutEmpty(asked))
	return r
}

func withoutEmpty(ranges string) string {
	list, ok := strings.CutPrefix(ranges, "bytes=")
	if !ok {
		return ranges
	}
	var some []string
	for one := range strings.SplitSeq(list, ",") {
		n, suffix := strings.CutPrefix(strings.Trim(one, " \t"), "-")
		if empty := suffix && n != "" && strings.Trim(n, "0") == ""; !empty {
			some = append(some, one)
		}
	}
	if len(some) == 0 {
		return "bytes=9223372036854775807-"
	}
	return "bytes=" + strings.Join(some, ",")
}
