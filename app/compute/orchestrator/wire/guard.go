package wire

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// GuardOptions say what a [Guard] lets pass.
type GuardOptions struct {
	Compat Compat   // Strict: what a browser is to do with answers is not said
	Token  bool     // callers bring one, which a page does not have: names are not looked at
	Hosts  []string // names, beside those below, by which requests may come to an address of the loopback

	// Patience is with a reader of an answer that takes nothing, and with a body that nobody wants and that does not come. Who reads a body sets times of his own. Defaults to 2 min.
	Patience time.Duration
}

// ownEndings are of names that nobody can have a page under: they are not to be registered (RFC 6761, RFC 6762, ICANN's reservation of .internal), or only this program
// knows them (.tunnel).
var ownEndings = []string{".localhost", ".local", ".internal", ".test", ".tunnel"}

// Guard keeps pages in browsers from using h in the name of whoever looks at them: the original's wire has no tokens, and whoever reaches it can run commands. A page of another
// origin may change nothing; and over the loopback a request comes to an address, to localhost, to a name without a dot, or to one that no stranger can have made lead
// there. Programs send no origin, and are not concerned. Besides, it lets no peer hold a connection for ever by doing nothing (check S6).
func Guard(h http.Handler, o GuardOptions) http.Handler {
	o.Patience = cmp.Or(o.Patience, 2*time.Minute)
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerStatus(w, http.StatusForbidden, 0, Unknown, "A page of another origin may not do this")
	}))
	h = origin.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Compat != Strict {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		}
		if !o.Token && overLoopback(r) && !o.ours(r.Host) {
			answerStatus(w, http.StatusMisdirectedRequest, 0, Unknown, "This server is not called so")
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

// ours tells whether a Host header can be trusted not to be a stranger's name. Browsers always send one.
func (o *GuardOptions) ours(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	return net.ParseIP(name) != nil || !strings.Contains(name, ".") || slices.Contains(o.Hosts, name) ||
		slices.ContainsFunc(ownEndings, func(end string) bool { return strings.HasSuffix(name, end) })
}
