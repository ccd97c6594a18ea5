// Package httpguard keeps pages in browsers, and peers that do nothing, from an HTTP listener that has no tokens.
package httpguard

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Options say what a [Guard] lets pass.
type Options struct {
	Token  bool     // callers bring one, which a page does not have: names are not looked at
	Hosts  []string // names, beside those below, by which requests may come to an address of the loopback
	Silent bool     // answers do not have the headers that say what a browser is to do with them

	// Refuse answers a request that does not pass. Defaults to the message as plain text.
	Refuse func(w http.ResponseWriter, code int, message string)

	// Patience is with a reader of an answer that takes nothing, and with a body that nobody wants and that does not
	// come. Who reads a body sets times of his own. Defaults to 2 min.
	Patience time.Duration
}

// ownEndings are of names that nobody can have a page under: they are not to be registered (RFC 6761, RFC 6762, ICANN's
// reservation of .internal), or only this program knows them (.tunnel).
var ownEndings = []string{".localhost", ".local", ".internal", ".test", ".tunnel"}

// Guard keeps pages in browsers from using h in the name of whoever looks at them. A page of another origin may change
// nothing; and over the loopback a request comes to an address, to localhost, to a name without a dot, or to one that
// no stranger can have made lead there. Programs send no origin, and are not concerned. Besides, it lets no peer hold a
// connection indefinitely by doing nothing (check S6).
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
			o.Refuse(w, http.StatusMisdirectedRequest, "This server is not called so")
			return
		}
		p := &patient{w, http.NewResponseController(w), o.Patience}
		_ = p.control.SetWriteDeadline(time.Time{}) // of the answer before; a recorder in a test has none
		if r.ContentLength != 0 {
			_ = p.control.SetReadDeadline(time.Now().Add(o.Patience))
		}
		h.ServeHTTP(p, r)
	})
}

// patient gives a reader time for each piece of an answer, not for all of them together.
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

// ours reports whether a Host header can be trusted not to be a stranger's name. Browsers always send one.
func (o *Options) ours(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	return net.ParseIP(name) != nil || !strings.Contains(name, ".") || slices.Contains(o.Hosts, name) ||
		slices.ContainsFunc(ownEndings, func(end string) bool { return strings.HasSuffix(name, end) })
}
