package host

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
)

// anchorsName is the directory of the anchors of histories in the data directory.
const anchorsName = "anchors"

// openAnchors makes the maker of anchors, if the settings do not turn it off.
func (r *Server) openAnchors(s *Settings) error {
	own, err := s.authorities()
	if err != nil {
		return cli.Usage(err)
	}
	if r.store.Histories == nil && len(own) > 0 {
		r.Log.Warn("histories get no time stamps", "reason", "a store of kind "+r.store.Jobs.Properties().Name+
			" has no numbers of all entries", "remedy", "remove the setting anchor.url, or keep the jobs in sqlite or "+
			"PostgreSQL")
	}
	if s.AnchorEvery <= 0 || r.store.Histories == nil {
		return nil
	}
	r.anchors = history.New(history.Options{
		Dir: filepath.Join(r.Shared, anchorsName), Source: r.store.Histories, Installation: r.store.Installation,
		Every: s.AnchorEvery, Keep: s.RecordsKeep, Log: r.Log,
		Leads: func() bool { return r.Engine.Leads() },
		Authorities: func() []*timestamp.Authority {
			all := own
			for _, a := range r.apps {
				if t, ok := a.(module.TimeStamper); ok && len(all) == 0 {
					all = t.Authorities()
				}
			}
			return all
		},
	})
	return nil
}

// authorities opens the time-stamp authorities that the settings name.
func (s *Settings) authorities() (all []*timestamp.Authority, err error) {
	roots := config.List(s.AnchorRoots)
	urls := config.List(s.AnchorURL)
	if len(urls) == 0 && len(roots) > 0 {
		return nil, fmt.Errorf("anchor.roots is for anchor.url: name the authorities there")
	}
	for _, url := range urls {
		a, err := timestamp.NewAuthority(timestamp.Settings{Name: url, URL: url, Roots: roots})
		if err != nil {
			return nil, fmt.Errorf("anchor.url: %w", err)
		}
		all = append(all, a)
	}
	return all, nil
}

// Export writes an export of all histories with their anchors.
func (d *Maintenance) Export(ctx context.Context, w io.Writer) error {
	if d.Store.Histories == nil {
		return job.Errorf(job.Refused, "export", "", "a store of kind %s has no export of histories; stagepost admin "+
			"verify checks them", d.Store.Jobs.Properties().Name)
	}
	_, err := history.Export(ctx, w, filepath.Join(d.Dir, anchorsName), d.Store.Installation, d.Store.Histories,
		time.Now())
	return err
}
