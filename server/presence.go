package server

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/workers"
)

// Presence shares what the servers of one store announce to each other. A store in PostgreSQL does.
type Presence interface {
	// Announce replaces what a server announces.
	Announce(ctx context.Context, server string, text []byte) error

	// Announced calls each with what each server announces, and how long ago it did.
	Announced(ctx context.Context, each func(server string, text []byte, age time.Duration)) error
}

const (
	announceEvery = 15 * time.Second // a third of the time after which a worker is silent, or less
	announceWait  = 5 * time.Second  // that an announcement may take
)

// announces announces the engine and the workers of this server until ctx ends.
func (s *Server) announces(ctx context.Context) {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	failed := false
	for {
		err := s.Announce(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			s.Log.Warn("the workers of this server cannot be announced to the other servers", "error", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.registry.News():
		}
	}
}

// Announce announces the engine and the workers of this server to the other servers of the store, once.
func (s *Server) Announce(ctx context.Context) error {
	if s.Presence == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, announceWait)
	defer stop()
	own := s.ownEngine()
	all := s.registry.Share(own, s.ownAgents()...)
	var err error
	if all.Parts, err = s.announced.texts(); err != nil {
		return err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return job.Errorf(job.Internal, "announce", "", "%w", err)
	}
	return s.Presence.Announce(ctx, serverOf(own.Name), text)
}

// announced is what the parts of a server announce to the other servers of the store.
type announced struct {
	mu sync.Mutex // guards by: parts are added while the server already announces
	by map[string]func() any
}

func (a *announced) add(more map[string]func() any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[string]func() any{}
	}
	maps.Copy(a.by, more)
}

func (a *announced) texts() (map[string]json.RawMessage, error) {
	a.mu.Lock()
	by := maps.Clone(a.by)
	a.mu.Unlock()
	all := map[string]json.RawMessage{}
	for name, announce := range by {
		text, err := json.Marshal(announce())
		if err != nil {
			return nil, job.Errorf(job.Internal, "announce", "", "%s: %w", name, err)
		}
		all[name] = text
	}
	return all, nil
}

// serverOf returns the name of the server of an engine, which stays the same when the server starts again.
func serverOf(engine string) string {
	if i := strings.LastIndexByte(engine, '/'); i > 0 {
		return engine[:i]
	}
	return engine
}

// others returns what the other servers announce.
func (s *Server) others(ctx context.Context) (o workers.Others, err error) {
	if s.Presence == nil {
		return o, nil
	}
	ctx, stop := context.WithTimeout(ctx, announceWait)
	defer stop()
	own := serverOf(s.Engine.Status().Worker)
	err = s.Presence.Announced(ctx, func(name string, text []byte, age time.Duration) {
		var one workers.Shared
		if name != own && json.Unmarshal(text, &one) == nil { // else it is of another version
			o.Add(name, one, age)
		}
	})
	return o, err
}

// Announced calls each with what each other server of the store announces under a name of [Part.Announce], and how long
// ago it did.
func (s *Server) Announced(ctx context.Context, name string,
	each func(server string, text []byte, age time.Duration)) error {
	others, err := s.others(ctx)
	if err == nil {
		others.Parts(name, each)
	}
	return err
}

// enginesFor returns the names of the engines of other servers that take jobs of a state with labels.
func enginesFor(engines []api.WorkerInfo, p job.KindState, labels []string) (names []string) {
	for i := range engines {
		e := &engines[i]
		live := e.State == api.WorkerIdle || e.State == api.WorkerBusy
		if live && slices.Contains(e.From, p) && len(job.Lacking(labels, e.Labels)) == 0 {
			names = append(names, e.Name)
		}
	}
	return names
}
