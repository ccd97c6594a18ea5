package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// answer is by what answers are distinguished.
type answer struct {
	method, route string
	status        int
}

// methods are those that the API has routes for; a stranger may send any word.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
	http.MethodOptions, http.MethodPatch}

// Answered counts one answer of the API. route is the pattern that fitted, empty for none; status 0 is an answer that
// was broken off.
func (m *Metrics) Answered(method, route string, status int, took time.Duration) {
	if !slices.Contains(methods, method) {
		method = Other
	}
	if route == "" {
		route = "none"
	}
	m.routes.of(answer{method, route, status}, func(a answer) prometheus.Observer {
		return m.requests.WithLabelValues(a.method, a.route, strconv.Itoa(a.status))
	}).Observe(took.Seconds())
}
