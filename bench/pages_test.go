package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

var (
	pageJobs  = flag.Int("pages.jobs", 100_000, "queued jobs of the large store in BenchmarkPages")
	listeners = flag.Int("pages.listeners", 1000, "streams in BenchmarkListeners")
	slow      = flag.Int("pages.slow", 2000, "slow connections in BenchmarkSlowConnections")
)

// instance is a server with its pages, over a store with queued jobs.
type instance struct {
	e    *engine.Engine
	url  string
	last job.ID
}

func newInstance(b *testing.B, jobs int) instance {
	b.Helper()
	e, url := servedBy(b, opened(b, storeOptions()), server.Options{Watchers: *listeners + 8})
	enqueued(b, e, jobs, 0)
	j, err := e.Submit(b.Context(), engine.Order{Kind: "bench.j8", Spec: payload})
	if err != nil {
		b.Fatal(err)
	}
	return instance{e, url, j.ID}
}

// get requests a path and returns how long its whole answer took.
func (s instance) get(b *testing.B, c *http.Client, path, accept string) time.Duration {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	start := time.Now()
	answer, err := c.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	took := time.Since(start)
	if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
	return took
}

// percentile returns the time that so many of a hundred requests took at most.
func percentile(times []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkPages measures pages and answers of the API with a thousand queued jobs and with -pages.jobs, in turns: the
// 50th and 99th percentile with the large store in milliseconds, and as parts of those with the small one.
func BenchmarkPages(b *testing.B) {
	small, large := newInstance(b, 1000), newInstance(b, *pageJobs)
	const page, data = "text/html", "application/json"
	for _, one := range []struct{ name, path, accept string }{
		{"overview", "/", page}, {"list", "/jobs", page}, {"filtered", "/jobs?state=Stage0&order=oldest", page},
		{"job", "/jobs/%s", page}, {"api-list", "/api/v1/jobs?limit=100", data}, {"api-job", "/api/v1/jobs/%s", data},
		{"api-why", "/api/v1/jobs/%s/why", data},
	} {
		b.Run(one.name, func(b *testing.B) {
			took := map[string][]time.Duration{}
			c := &http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			path := func(s instance) string {
				if one.name == "job" || one.name == "api-job" || one.name == "api-why" {
					return fmt.Sprintf(one.path, s.last)
				}
				return one.path
			}
			for _, s := range []instance{small, large} { // what is computed once for many requests
				s.get(b, c, path(s), one.accept)
			}
			b.ResetTimer()
			for range b.N {
				for size, s := range map[string]instance{"small": small, "large": large} {
					took[size] = append(took[size], s.get(b, c, path(s), one.accept))
				}
			}
			for _, p := range []int{50, 99} {
				s, l := percentile(took["small"], p), percentile(took["large"], p)
				b.ReportMetric(milliseconds(l), fmt.Sprintf("p%d-ms", p))
				b.ReportMetric(l.Seconds()/s.Seconds(), fmt.Sprintf("p%d-ratio", p))
			}
		})
	}
}

// BenchmarkRequests measures answers about single jobs by the API, asked by 16 clients at once.
func BenchmarkRequests(b *testing.B) {
	const clients = 16
	s := newInstance(b, 1000)
	c, err := client.New(s.url, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ResetTimer()
	took := drive(clients, b.N, func(int) {
		if _, err := c.Job(b.Context(), s.last); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/took.Seconds(), "requests/s")
}

// BenchmarkListeners measures the time from a change of a job until each of -pages.listeners streams has its entry of
// the history, in milliseconds: of the median listener, and of the last one.
func BenchmarkListeners(b *testing.B) {
	s := newInstance(b, 1)
	ctx, stop := context.WithCancel(b.Context())
	arrived := make(chan time.Time, *listeners)
	var all sync.WaitGroup
	c, err := client.New(s.url, client.Options{HTTP: &http.Client{Transport: &http.Transport{}}})
	if err != nil {
		b.Fatal(err)
	}
	for range *listeners {
		all.Go(func() {
			err := c.Watch(ctx, s.last, 0, func(u client.Update) error {
				if u.Event != nil {
					arrived <- time.Now()
				}
				return nil
			})
			if err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	for range *listeners {
		<-arrived // the creation
	}
	var middle, last time.Duration
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		_, err := s.e.Operator().SetPriority(ctx, s.last, 0, i%2+1, "bench", "measured")
		if err != nil {
			b.Fatal(err)
		}
		times := make([]time.Duration, *listeners)
		for n := range times {
			times[n] = (<-arrived).Sub(start)
		}
		middle += percentile(times, 50)
		last += percentile(times, 100)
	}
	b.StopTimer()
	b.ReportMetric(milliseconds(middle)/float64(b.N), "median-ms")
	b.ReportMetric(milliseconds(last)/float64(b.N), "last-ms")
	stop()
	all.Wait()
	c.Close()
}

// BenchmarkSlowConnections measures answers about a job while -pages.slow connections send the header of a request a
// byte at a time, in turns with a server without them: the 99th percentile of both in milliseconds.
func BenchmarkSlowConnections(b *testing.B) {
	quiet, busy := newInstance(b, 1), newInstance(b, 1)
	ctx, stop := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for i := range *slow {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%100))} // a server bounds those of one address
		all.Go(func() { drip(ctx, busy.url[len("http://"):], from) })
	}
	took := map[string][]time.Duration{}
	c := &http.Client{Transport: &http.Transport{}}
	b.ResetTimer()
	for range b.N {
		for name, s := range map[string]instance{"quiet": quiet, "busy": busy} {
			took[name] = append(took[name], s.get(b, c, "/api/v1/jobs/"+string(s.last), "application/json"))
		}
	}
	b.StopTimer()
	b.ReportMetric(milliseconds(percentile(took["quiet"], 99)), "quiet-p99-ms")
	b.ReportMetric(milliseconds(percentile(took["busy"], 99)), "busy-p99-ms")
	stop()
	c.CloseIdleConnections()
	all.Wait()
}

// drip sends a header that does not end, a byte each 100 ms, and connects again when the server ends the connection.
func drip(ctx context.Context, address string, from net.Addr) {
	d := net.Dialer{LocalAddr: from}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		}
		for err == nil {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-tick.C:
				_, err = conn.Write([]byte{'a'})
			}
		}
		if conn != nil {
			_ = conn.Close()
		}
		select { // a server that refuses at once is not asked in a loop
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
