package host

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/server/metrics"
)

// newMetrics makes the metrics, which the parts get when they are made.
func newMetrics(r *Server, s *Settings) *metrics.Metrics {
	return metrics.New(metrics.Options{Version: build.Version(), Groups: s.MetricsGroups, Log: r.Log})
}

// bindMetrics joins the metrics to the parts that they ask.
func (r *Server) bindMetrics() {
	from := metrics.Sources{Engine: r.Engine, Topics: r.topics(), Watching: r.server.Watching, Disks: r.disks,
		Waiting: r.store.Waiting, Workers: r.server.ListWorkers}
	if r.backups != nil {
		from.Backups = func() (time.Time, time.Duration) { return r.backups.last(), r.backups.every }
	}
	if r.anchors != nil {
		from.Anchors = func() (time.Time, time.Duration) { return r.anchors.State().Stamped, r.anchors.Every() }
	}
	if r.signed != nil {
		from.Checkpoints = func() metrics.Checkpoints {
			state, leads := r.signed.State()
			return metrics.Checkpoints{Leads: leads, Covered: state.Covered, Every: r.signed.Every(),
				Failures: state.Failures}
		}
	}
	if r.store.Retries != nil {
		from.More = append(from.More, storeGauges(r.store))
	}
	for _, a := range r.apps {
		if m, ok := a.(module.Measurer); ok {
			m.Measure(&from)
		}
	}
	r.metrics.Bind(from)
}

// storeGauges are those of a store that servers share.
func storeGauges(s *stores.Store) metrics.Source {
	leads := metrics.NewGauge("store_leader", "1 if this server leads those that share the store.")
	retries := metrics.NewGauge("store_retries", "Operations of the store that were tried again since the start.")
	used := metrics.NewGauge("store_connections_used", "Connections to the database that read.")
	most := metrics.NewGauge("store_connections", "Connections to the database that may read.")
	return metrics.Source{Name: "store", Gauges: []*prometheus.Desc{leads, retries, used, most},
		Collect: func(_ context.Context, put metrics.Putter) error {
			leading := 0.0
			if s.Leads() {
				leading = 1
			}
			n, limit := s.Connections()
			put(leads, leading)
			put(retries, float64(s.Retries()))
			put(used, float64(n))
			put(most, float64(limit))
			return nil
		}}
}

// topics names the messages that the applications deliver.
func (r *Server) topics() []string {
	var all []string
	for _, a := range r.apps {
		all = slices.AppendSeq(all, maps.Keys(a.Deliver()))
	}
	return all
}

// disks returns the directories whose free space is a metric: the data directory and the storage locations.
func (r *Server) disks() map[string]string {
	all := map[string]string{"data": r.Data}
	if r.Shared != r.Data {
		all["shared"] = r.Shared
	}
	for _, a := range r.apps {
		if p, ok := a.(module.StorageLister); ok {
			for _, dir := range p.StorageLocations() {
				all[placeName(r.Shared, dir)] = dir
			}
		}
	}
	return all
}

// placeName names a storage location: its directory, without the data directory if it lies in there.
func placeName(data, dir string) string {
	if inner, ok := strings.CutPrefix(dir, data+string(filepath.Separator)); ok {
		return inner
	}
	return dir
}

// listenMetrics opens the address of the metrics, if they have one of their own.
func (r *Server) listenMetrics(ctx context.Context, s *Settings) (net.Listener, error) {
	if s.MetricsListen == "" {
		return nil, nil
	}
	l, err := listenAt(ctx, "metrics.listen", s.MetricsListen, 16, false) // it needs no token
	if err != nil {
		return nil, err
	}
	r.MetricsURL = "http://" + l.Addr().String() + "/metrics"
	return l, nil
}

// serveMetrics answers on the address of the metrics until ctx ends.
func (r *Server) serveMetrics(ctx context.Context, l net.Listener) {
	if l == nil {
		return
	}
	h := listen.HTTP(r.server.MetricsAlone(), r.Log)
	r.stopped.Go(func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			r.Log.Error("metrics", "error", err)
		}
	})
	r.stopped.Go(func() {
		<-ctx.Done()
		_ = h.Close()
	})
}
