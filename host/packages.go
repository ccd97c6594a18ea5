package host

import "github.com/stagepost/stagepost/app/ingest/access"

// validTokens lists the hashes of the API tokens that are valid at the time of the call; nil without tokens.
func (r *Server) validTokens() func() []string {
	if r.tokens == nil {
		return nil
	}
	return func() []string {
		var all []string
		for _, h := range r.tokens.Valid() {
			all = append(all, h.String())
		}
		return all
	}
}

// openAccess opens the application that gives back what ingest stored.
func (r *Server) openAccess(s *Settings, stored access.Holdings) (*access.App, error) {
	app, err := access.New(access.Options{
		Dir: r.Data, Holdings: stored, Log: r.Log, SmallBytes: s.AccessSmall, SmallWorkers: s.AccessWorkers, LargeWorkers: s.AccessLarge,
		Tokens: r.validTokens(), MaxFiles: s.AccessFiles, MaxBytes: s.AccessBytes, Keep: WordOr(s.AccessKeep),
	})
	if err != nil {
		return nil, err
	}
	r.apps = append(r.apps, app)
	r.closers = append(r.closers, app)
	return app, nil
}
