package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/ratelimit"
)

// burstFor is how long a client may save up requests that it did not send.
const burstFor = 10 * time.Second

// rates limit how often a client sends requests; nil: unlimited.
type rates struct{ identity, address *ratelimit.Limit }

func newRates(o *Options) (all rates) {
	limit := func(perSecond int64) *ratelimit.Limit {
		if perSecond <= 0 {
			return nil
		}
		every := time.Second / time.Duration(perSecond)
		return ratelimit.New(every, int(burstFor/every), time.Now)
	}
	return rates{limit(o.RateIdentity), limit(o.RateAddress)}
}

// pace counts a request of a sender that is known, or of an address if the name is empty, and refuses it with the
// status 429 if there are too many.
func (s *Server) pace(w http.ResponseWriter, r *http.Request, key string) error {
	limit := s.rates.address
	if key != "" {
		limit = s.rates.identity
	}
	if limit == nil {
		return nil
	}
	if key == "" {
		key = s.Party(r)
	}
	wait, ok := limit.Allow(key)
	if ok {
		return nil
	}
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	return problem.Refuse(http.StatusTooManyRequests, job.Unavailable, "%s sends too many requests", key)
}

// logAct logs who changed something, how the sender is authenticated, and from where. Workers' reports are not logged.
// What the sender may not do is logged as refused.
func (s *Server) logAct(route *Route, r *http.Request, err error) {
	who, ok := Who(r.Context())
	if !ok || route.readsOnly() || route.Who == Worker || denied(err) {
		return
	}
	s.Log.Info("act", "method", r.Method, "path", s.loggedPath(r), "actor", who.Name, "role", who.Role, "way", who.Way,
		"credential", who.Key.String()[:16], "from", s.From(r), "error", err)
}
