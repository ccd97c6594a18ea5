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
	Groups  int    // groups, such as collections, with series of their own; the rest are "other". Defaults to 50
	Causes  int    // causes of each counter with series of their own; the rest are "other". Defaults to 64
	Log     *slog.Logger
}

// Metrics counts. Make one with New, give it to the parts that count, Bind it to the parts that are read.
type Metrics struct {
	options  Options
	registry *prometheus.Registry
	handler  http.Handler
	state    *state

	attempts meters
	commits  commits
	requests *prometheus.HistogramVec
	routes   table[answer, prometheus.Observer]
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
	m := &Metrics{options: o, registry: prometheus.NewRegistry(), state: newState(o)}
	m.attempts = newMeters(m.registry, o.Causes)
	m.commits = newCommits(m.registry)
	m.requests = histogram(m.registry, "http_request_duration_seconds",
		"Time to answer a request, by method, route and status. Event streams and long polls take as long "+
			"as they are open.",
		[]float64{.001, .005, .025, .1, .5, 2, 10, 60}, "method", "route", "status")
	build := gauge(m.registry, "build_info", "1, with the version of the program and of Go as labels.", "version", "go")
	build.WithLabelValues(Valid(o.Version), runtime.Version()).Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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

// Counter registers the counter stagepost_NAME of an application.
func (m *Metrics) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return counter(m.registry, name, help, labels...)
}

// Histogram registers the histogram stagepost_NAME of an application.
func (m *Metrics) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return histogram(m.registry, name, help, buckets, labels...)
}

// Groups returns a limit for values that people choose: as many as Options.Groups.
func (m *Metrics) Groups() *Values { return newValues(m.options.Groups) }

// Causes returns a limit for causes of failures: as many as Options.Causes.
func (m *Metrics) Causes() *Values { return newValues(m.options.Causes) }

// LargestGroups returns a choice of as many values as Options.Groups.
func (m *Metrics) LargestGroups() *Largest { return &Largest{most: m.options.Groups} }

// ServeHTTP answers with all metrics in the text format that the reader prefers.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Gatherer returns the metrics to tests.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

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

func histogram(r *prometheus.Registry, name, help string, buckets []float64,
	labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
		Buckets: buckets}, labels)
	r.MustRegister(h)
	return h
}
