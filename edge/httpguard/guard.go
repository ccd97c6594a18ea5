// Package httpguard protects an HTTP listener without tokens from pages in browsers, and from idle peers.
package httpguard

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Options define the requests that a [Guard] accepts.
type Options struct {
	Token  bool     // callers send a token, which a page does not have: host names are not checked
	Hosts  []string // further names by which requests may reach a loopback address
	Silent bool     // answers do not have the security headers for browsers

	// Refuse answers a refused request. Defaults to the message as plain text.
	Refuse func(w http.ResponseWriter, code int, message string)

	// Patience bounds the wait for a reader of an answer that takes nothing, and for an unread body that does not
	// arrive. A handler that reads a body sets its own deadlines. Defaults to 2 min.
	Patience time.Duration
}

// ownEndings are suffixes under which no page can exist: they are not registered (RFC 6761, RFC 6762, ICANN's
// reservation of .internal), or only this program uses them (.tunnel).
var ownEndings = []string{".localhost", ".local", ".internal", ".test", ".tunnel"}

// Guard keeps pages in browsers from using h with the rights of their viewer. A page of another origin may change
// nothing. Over the loopback, a request must address an IP address, localhost, a name without a dot, or a name that
// no foreign DNS zone can contain. Programs send no origin and are not affected. Guard also prevents peers from
// holding a connection indefinitely by inactivity.
func Guard(h http.Handler, o Options) http.Handler {
	o.Patience = cmp.Or(o.Patience, 2*time.Minute)
	if o.Refuse == nil {
		o.Refuse = func(w http.ResponseWriter, code int, message string) { http.Error(w, message, code) }
	}
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		o.Refuse(w, http.StatusForbidden, "A page of another origin may not do this")
	}))
	h = origin.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !o.Silent {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		}
		if !o.Token && overLoopback(r) && !o.ours(r.Host) {
			o.Refuse(w, http.StatusMisdirectedRequest, "This server does not have this name")
			return
		}
		p := &patient{w, http.NewResponseController(w), o.Patience}
		_ = p.control.SetWriteDeadline(time.Time{}) // of the previous answer; a recorder in a test has none
		if r.ContentLength != 0 {
			_ = p.control.SetReadDeadline(time.Now().Add(o.Patience))
		}
		h.ServeHTTP(p, r)
	})
}

// patient sets a deadline for each piece of an answer, not for all of them together.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	time    time.Duration
}

// Write is part of io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time))
	return p.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func overLoopback(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// ours reports whether a Host header cannot be a foreign name. Browsers always send one.
func (o *Options) ours(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	return net.ParseIP(name) != nil || !strings.Contains(name, ".") || slices.Contains(o.Hosts, name) ||
		slices.ContainsFunc(ownEndings, func(end string) bool { return strings.HasSuffix(name, end) })
}
