package wire

import (
	"net/http"

	"github.com/stagepost/stagepost/edge/httpguard"
)

// GuardOptions define what a [Guard] lets pass.
type GuardOptions struct {
	Compat Compat   // Strict: the headers for browsers are not sent
	Token  bool     // callers bring one, which a page does not have: names are not inspected
	Hosts  []string // names by which requests may come to an address of the loopback
}

// Guard is [httpguard.Guard] for either side of the wire: the original's has no tokens, and every caller that reaches
// it can run commands. Refusals are answers of the wire.
func Guard(h http.Handler, o GuardOptions) http.Handler {
	return httpguard.Guard(h, httpguard.Options{
		Token: o.Token, Hosts: o.Hosts, Silent: o.Compat == Strict,
		Refuse: func(w http.ResponseWriter, code int, message string) { answerStatus(w, code, 0, Unknown, message) },
	})
}
