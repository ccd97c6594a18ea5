package metrics

import (
	"log/slog"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options of New. The zero value works.
type Options struct {
	Version string // of the program
	Groups  int    // groups (collections, courses, services), and agents, that are told apart; the rest are "other". Defaults to 50
	Causes  int    // causes that are told apart for each counter; the rest are "other". Defaults to 64
	Log     *slog.Logger
}

// Metrics counts. Make one with New, give it to the parts that it listens to, Bind it to those it asks.
type Metrics struct {
	registry *prometheus.Registry
	handler  http.Handler
	state    *state

	attempts  meters
	commits   commits
	flows     *flows
	computing computing
	bytes     *prometheus.CounterVec
	requests  *prometheus.HistogramVec
	routes    table[answer, prometheus.Observer]
}

// namespace begins the name of every metric.
const namespace = "stagepost"

// New makes the metrics of one server.
func New(o Options) *Metrics {
	if o.Groups <= 0 {
		o.Groups = 50
	}
	if o.Causes <= 0 {
		o.Causes = 64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{registry: prometheus.NewRegistry(), state: newState(o)}
	m.attempts = newMeters(m.registry, o.Causes)
	m.commits = newCommits(m.registry)
	m.flows = newFlows(m.registry, o.Causes)
	m.computing = newComputing(m.registry, o)
	m.bytes = counter(m.registry, "ingest_bytes_total", "Bytes that ingest moved, by way: fetched from sources, stored in places, read back from places.", "way")
	m.requests = histogram(m.registry, "http_request_duration_seconds", "Time to answer a request, by method, route and status. Event streams and long polls take as long as they are open.",
		[]float64{.001, .005, .025, .1, .5, 2, 10, 60}, "method", "route", "status")
	build := gauge(m.registry, "build_info", "1, with the version of the program and of Go as labels.", "version", "go")
	build.WithLabelValues(valid(o.Version), runtime.Version()).Set(1)
	m.registry.MustRegister(m.state, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(share(m.registry.Gather), promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: mostReaders, Timeout: 3 * patience, // a reader may wait for two readings
	})
	return m
}

// mostReaders is how many requests for metrics are answered at once; each has the text in memory.
const mostReaders = 100

// Register adds the metrics of an application. Their names begin with stagepost_ and the name of the application.
func (m *Metrics) Register(all ...prometheus.Collector) { m.registry.MustRegister(all...) }

// ServeHTTP answers with all metrics in the text format that the reader prefers.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Gatherer gives the metrics to tests.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Moved counts bytes that an application moved; it fits ingest.Options.Moved.
func (m *Metrics) Moved(way string, n int64) { m.bytes.WithLabelValues(way).Add(float64(n)) }

func counter(r *prometheus.Registry, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func gauge(r *prometheus.Registry, name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	r.MustRegister(g)
	return g
}

func histogram(r *prometheus.Registry, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	r.MustRegister(h)
	return h
}
