package archiveserve

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/stagepost/stagepost/app/archive/catalog"
	archiveconfig "github.com/stagepost/stagepost/app/archive/config"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/trigger"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// live is the configuration as it was read last. Jobs ask it at each use, so that a changed one applies to them.
type live struct {
	now atomic.Pointer[generation]
}

// generation is what one reading gave.
type generation struct {
	*archiveconfig.Parts
	signer *sign.Signer // nil: there is no authority
}

// newGeneration opens what a configuration names.
func newGeneration(
	c *archiveconfig.Config, pool *archiveconfig.Pool, cat *catalog.Catalog, log *slog.Logger,
) (*generation, error) {
	p, err := c.Open(pool)
	if err != nil {
		return nil, err
	}
	g := &generation{Parts: p}
	if len(p.Authorities) > 0 {
		g.signer, err = sign.New(sign.Options{
			Catalog: cat, Authorities: p.Authorities, Retired: p.Retired, RenewBefore: c.RenewBefore.Duration, Log: log,
		})
	}
	return g, err
}

// Names is part of [archive.Sources].
func (l *live) Names() []string { return l.now.Load().Names() }

// Source is part of [archive.Sources].
func (l *live) Source(name string) (source.Source, error) { return l.now.Load().Source(name) }

func (l *live) organization() string { return l.now.Load().Config.Organization }

func (l *live) objects() map[string]*ocfl.Root { return l.now.Load().Objects }

func (l *live) preset(name string) (settings.Preset, bool) { return l.now.Load().Config.Preset(name) }

func (l *live) describe(location string) packaging.Location { return l.now.Load().Describe(location) }

// authorities lists the time-stamp authorities in the order of the file.
func (l *live) authorities() (names []string) {
	for _, a := range l.now.Load().Config.Authorities {
		names = append(names, a.Name)
	}
	return names
}

// Sign is part of [archive.Signer].
func (l *live) Sign(ctx context.Context, d sign.Document) (sign.Result, error) {
	s := l.now.Load().signer
	if s == nil {
		return sign.Result{}, job.Errorf(job.Invalid, "archive", job.ID(d.Job), "no time-stamp authority is "+
			"configured: add one to authorities in the file of archive.config")
	}
	return s.Sign(ctx, d)
}

func (l *live) schedules() map[string]trigger.Schedule { return l.now.Load().Config.Schedules }

func (l *live) webhooks() map[string]*notify.Webhook { return l.now.Load().Config.Webhooks }

func (l *live) receivers() map[string]*trigger.Receiver { return l.now.Load().Config.Receivers }
