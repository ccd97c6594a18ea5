package signin

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
)

// repeatFor is how long a browser may repeat a callback. Browsers and HTTP clients repeat a GET whose connection broke
// before the answer.
const repeatFor = time.Minute

// outcome is how a callback ends. The last three fields are set when done is closed, and not changed afterwards.
type outcome struct {
	at   time.Time // when the callback came
	sum  [32]byte  // of the callback and of the cookie that its browser has
	done chan struct{}

	secret string // of the session that began; empty: none did
	wrong  string // what the page of sign-in shows otherwise
	err    error  // the answer instead of that page
}

// outcome returns how a callback of a sign-in ends. The one who is first decides it, for all others of the same browser
// with the same callback within a short time; nil: the sign-in has ended.
func (o *OIDC) outcome(p pending, query string) (end *outcome, first bool) {
	state, sum := sha256.Sum256([]byte(p.State)), sha256.Sum256([]byte(p.text()+"?"+query))
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for k, one := range o.outcomes {
		switch age := now.Sub(one.at); {
		case age > pendingFor:
			delete(o.outcomes, k)
		case age > repeatFor:
			o.outcomes[k] = &outcome{at: one.at} // without the secret; it has the sum of no callback
		}
	}
	if end = o.outcomes[state]; end != nil {
		if end.sum != sum {
			end = nil
		}
		return end, false
	}
	if o.outcomes == nil {
		o.outcomes = map[[32]byte]*outcome{}
	}
	end = &outcome{at: now, sum: sum, done: make(chan struct{}), wrong: "the sign-in did not end: begin again"}
	o.outcomes[state] = end
	return end, true
}

// settle exchanges the code of a callback and begins the session. Its connection may break meanwhile: the browser
// repeats the callback.
func (s *routes) settle(end *outcome, r *http.Request, one pending, q url.Values) {
	defer close(end.done)
	r = r.WithContext(context.WithoutCancel(r.Context()))
	var who identity.Identity
	err := errors.New("the provider refused the sign-in")
	if !q.Has("error") {
		if who, err = s.o.OIDC.exchange(r.Context(), one, q.Get("code")); err == nil {
			err = s.taken.check(who.Name, s.o.OIDC.Issuer)
		}
	}
	switch {
	case errors.Is(err, identity.ErrFault):
		end.err = job.Errorf(job.Unavailable, "sign-in", "", "%w", err)
	case err != nil:
		end.wrong, end.err = brief(err), s.failed(r, who.Name, byOIDC, err)
	default:
		end.secret, end.err = s.open(r, session{Name: who.Name, Display: who.Display, Role: who.Role,
			Groups: who.Groups, How: byOIDC})
	}
}
