package api

import "time"

// Session is who sends a request.
type Session struct {
	Authenticated bool   `json:"authenticated"` // the server authenticates; if not, every client may do everything
	SignedIn      bool   `json:"signed_in"`
	Name          string `json:"name,omitempty"`  // the owner of jobs, the actor in histories
	Shown         string `json:"shown,omitempty"` // the name to show
	Role          string `json:"role,omitempty"`
	Way           string `json:"way,omitempty"` // how it is authenticated: token, session, proxy or certificate
}

// Sessions lists the sessions of browsers, the latest first.
type Sessions struct {
	Sessions []OpenSession `json:"sessions"`
}

// OpenSession is the session of a browser.
type OpenSession struct {
	Key   string    `json:"key"` // the SHA-256 of its cookie
	Name  string    `json:"name"`
	Role  string    `json:"role"`
	How   string    `json:"how"`  // how it began: password, token or oidc
	From  string    `json:"from"` // the address of the browser
	Begun time.Time `json:"begun"`
	Used  time.Time `json:"used"` // the last use, to the minute
}
