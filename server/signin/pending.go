package signin

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// Bounds of the sign-ins at a provider that one browser has begun. Their cookies are a part of each request.
const (
	pendingFor    = 10 * time.Minute // how long one may take
	mostPending   = 5                // the oldest is removed
	pendingBytes  = 1200             // of the value of a cookie; one that is longer returns to the first page
	pendingPrefix = "-oidc-"         // of the cookies' names; the state follows
)

// pending is a sign-in that has begun. It is kept in a cookie of the browser, named by its state, so that tabs do not
// replace the sign-ins of each other.
type pending struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`
	Begun    time.Time `json:"begun"`
}

func newPending(next string, now time.Time) pending {
	return pending{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(),
		Verifier: oauth2.GenerateVerifier(), Next: next, Begun: now.UTC().Truncate(time.Second)}
}

// text is the value of the cookie.
func (p pending) text() string {
	text, _ := json.Marshal(p) // texts and a time can be marshalled
	if value := base64.RawURLEncoding.EncodeToString(text); len(value) <= pendingBytes || p.Next == "/" {
		return value
	}
	p.Next = "/"
	return p.text()
}

// readPending reads the value of a cookie; the zero value if it cannot be read.
func readPending(value string) (p pending) {
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return pending{}
	}
	return p
}

// keepPending sets the cookie of a sign-in, and removes the oldest ones if the browser has too many.
func (s *routes) keepPending(w http.ResponseWriter, r *http.Request, p pending) {
	secure := s.secure(r)
	var all []*http.Cookie
	for _, c := range r.Cookies() {
		if strings.HasPrefix(c.Name, cookieName(secure, pendingPrefix)) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *http.Cookie) int {
		return readPending(b.Value).Begun.Compare(readPending(a.Value).Begun)
	})
	for _, c := range all[min(mostPending-1, len(all)):] {
		s.dropPending(w, secure, strings.TrimPrefix(c.Name, cookieName(secure, pendingPrefix)))
	}
	http.SetCookie(w, cookie(secure, pendingPrefix+p.State, p.text(), pendingFor))
}

// takePending returns the sign-in of a state and removes its cookie; the zero value if the browser has none.
func (s *routes) takePending(w http.ResponseWriter, r *http.Request, state string) pending {
	secure := s.secure(r)
	all := r.CookiesNamed(cookieName(secure, pendingPrefix+state))
	if len(all) == 0 {
		return pending{}
	}
	s.dropPending(w, secure, state)
	if len(all) > 1 {
		return pending{}
	}
	return readPending(all[0].Value)
}

func (s *routes) dropPending(w http.ResponseWriter, secure bool, state string) {
	http.SetCookie(w, cookie(secure, pendingPrefix+state, "", -1))
}
