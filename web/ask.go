package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"

	"github.com/stagepost/stagepost/job"
)

// Get asks an operation of the API and decodes its answer.
func (p *Pages) Get(r *http.Request, path string, into any) error {
	return p.Send(r, http.MethodGet, path, nil, into)
}

// Send sends a body to an operation of the API and decodes its answer.
func (p *Pages) Send(r *http.Request, method, path string, in, into any) error {
	text, err := p.Ask(r, method, path, in)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return job.Errorf(job.Internal, "page", "", "%s %s: %w", method, path, err)
	}
	return nil
}

// With returns a path with a query, if it has one.
func With(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Given returns the parameters that have a value: a form sends the empty ones, too.
func Given(q url.Values) url.Values {
	all := url.Values{}
	for name, values := range q {
		for _, v := range values {
			if v != "" {
				all.Add(name, v)
			}
		}
	}
	return all
}

// localPath matches the path of a page of this server.
var localPath = regexp.MustCompile(`^/([^/\\]|$)`)
