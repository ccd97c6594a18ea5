package wire

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Endpoints are the three addresses of an agent as the original's variables give them.
type Endpoints struct {
	Upload    string // used as it is: http://host:9000/submit
	Download  string // "/" and the id are added: http://host:9000/retrieve
	Terminate string // "/" and the id are added: http://host:9000/kill
}

// AgentAt gives the endpoints below a base address such as http://host:9000.
func AgentAt(base string) (Endpoints, error) {
	if _, err := parseURL(base); err != nil {
		return Endpoints{}, err
	}
	base = strings.TrimRight(base, "/")
	return Endpoints{base + "/submit", base + "/retrieve", base + "/kill"}, nil
}

// parseURL takes an absolute http or https address. Its errors do not repeat it, since it may hold a password.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err
		}
		return nil, fmt.Errorf("is no URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.Fragment != "":
		return nil, errors.New("has a fragment")
	}
	return u, nil
}

// sibling gives u with the last segment of its path replaced, as the original makes /retrieve_partial of /retrieve. A
// slash at the end does not count.
func sibling(u *url.URL, name string) *url.URL {
	path := strings.TrimRight(u.Path, "/")
	path = path[:strings.LastIndexByte(path, '/')+1]
	if path == "" {
		path = "/"
	}
	s := *u
	s.Path, s.RawPath = path+name, ""
	return &s
}

// item gives u with an id behind it, with one slash between them.
func item(u *url.URL, id uint32) string {
	s := *u
	s.Path, s.RawPath = strings.TrimRight(u.Path, "/")+"/"+strconv.FormatUint(uint64(id), 10), ""
	return s.String()
}
