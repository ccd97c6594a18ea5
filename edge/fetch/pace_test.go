package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// bubble serves h in memory and gives a client of it; all timers are virtual.
func bubble(t *testing.T, p Policy, h http.HandlerFunc) *Client {
	t.Helper()
	listener := newPipes()
	server := &http.Server{Handler: h}
	go server.Serve(listener)
	fake := &network{names: networkNames(), listen: listener.dial}
	p.Lookup, p.Dial, p.OwnAddresses = fake.lookup, fake.dial, func() ([]netip.Addr, error) { return nil, nil }
	c := New(p)
	t.Cleanup(func() {
		c.Close()
		server.Close()
		listener.Close()
		synctest.Wait()
	})
	return c
}

const someURL = "http://example.org/f"

func TestSlowServers(t *testing.T) {
	drip := func(every time.Duration, bytes, times int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(bytes*times))
			http.NewResponseController(w).Flush()
			for range times {
				select {
				case <-r.Context().Done():
					return
				case <-time.After(every):
				}
				w.Write(make([]byte, bytes))
				http.NewResponseController(w).Flush()
			}
		}
	}
	for _, fake := range []struct {
		name   string
		policy Policy
		serve  http.HandlerFunc
		want   error
		after  time.Duration
	}{
		{"one byte a second", Policy{Retries: -1}, drip(time.Second, 1, 100_000), ErrSlow, 30 * time.Second},
		{"control: no minimum", Policy{Retries: -1, MinRate: -1}, drip(time.Second, 1, 1000), nil, 1000 * time.Second},
		{"control: just fast enough", Policy{Retries: -1}, drip(time.Second, 1100, 100), nil, 100 * time.Second},
		{"silence", Policy{Retries: -1}, drip(time.Hour, 1, 2), ErrIdle, 60 * time.Second},
		{"silence, longer idle", Policy{Retries: -1, IdleTimeout: 2 * time.Hour, MinRate: -1}, drip(time.Hour, 1, 2),
			nil, 2 * time.Hour},
		{"total", Policy{Retries: -1, TotalTimeout: time.Minute}, drip(time.Second, 5000, 100), ErrTimeout,
			time.Minute},
	} {
		t.Run(fake.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble(t, fake.policy, fake.serve)
				begin := time.Now()
				_, err := c.Download(context.Background(), someURL, newRoot(t), "f", Want{Size: -1})
				if !errors.Is(err, fake.want) {
					t.Fatalf("error %v, want %v", err, fake.want)
				}
				if fake.want != nil {
					wantKind(t, err, Network)
				}
				if took := time.Since(begin); took < fake.after || took > fake.after+2*time.Second {
					t.Errorf("took %v, want about %v", took, fake.after)
				}
			})
		})
	}
}

func TestHeaderNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble(t, Policy{Retries: -1}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		begin := time.Now()
		_, err := c.Head(context.Background(), someURL)
		wantKind(t, err, Network)
		if took := time.Since(begin); took != 20*time.Second {
			t.Errorf("took %v, want 20s", took)
		}
	})
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		fails := 2
		after := ""
		c := bubble(t, Policy{}, func(w http.ResponseWriter, r *http.Request) {
			at = append(at, time.Now())
			if len(at) <= fails {
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Write([]byte("data"))
		})
		_, err := c.Download(context.Background(), someURL, newRoot(t), "f", Want{Size: 4})
		wantKind(t, err, "")
		if len(at) != 3 {
			t.Fatalf("%d tries, want 3", len(at))
		}
		for n, mean := range []time.Duration{time.Second, 2 * time.Second} {
			if wait := at[n+1].Sub(at[n]); wait < mean/2 || wait > mean*3/2 {
				t.Errorf("wait %d was %v, want %v ± half", n, wait, mean)
			}
		}
		at, fails = nil, 3
		_, err = c.Download(context.Background(), someURL, newRoot(t), "f", Want{Size: 4})
		wantKind(t, err, Server)
		if len(at) != 3 {
			t.Errorf("%d tries, want 3", len(at))
		}
		at, fails, after = nil, 1, "20"
		_, err = c.Download(context.Background(), someURL, newRoot(t), "f", Want{Size: 4})
		wantKind(t, err, "")
		if wait := at[1].Sub(at[0]); wait != 20*time.Second {
			t.Errorf("waited %v, want the 20s that the server asked for", wait)
		}
		at, after = nil, "3600"
		_, err = c.Download(context.Background(), someURL, newRoot(t), "f", Want{Size: 4})
		var e *Error
		if !errors.As(err, &e) || e.RetryAfter != time.Hour || len(at) != 1 {
			t.Errorf("error %v after %d tries, want one that carries an hour", err, len(at))
		}
	})
}

// A server that cuts each answer is continued within one call, as far as the tries go.
func TestRetriesContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := payload(9000)
		o := &origin{data: data, etag: `"v1"`, ranges: true}
		c := bubble(t, Policy{}, func(w http.ResponseWriter, r *http.Request) {
			if o.cut = -1; len(o.requests) < 2 {
				o.cut = 3000
			}
			o.ServeHTTP(w, r)
		})
		root := newRoot(t)
		got, err := c.Download(context.Background(), someURL, root, "f", Want{Size: -1})
		if err != nil || got.Resumed != 6000 {
			t.Fatalf("got %+v, %v", got, err)
		}
		wantFile(t, root, "f", data)
	})
}

func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble(t, Policy{Backoff: time.Hour}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) })
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begin := time.Now()
		_, err := c.Head(ctx, someURL)
		wantKind(t, err, Server)
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("took %v, want 1m", took)
		}
	})
}
