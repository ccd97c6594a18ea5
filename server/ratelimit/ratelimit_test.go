package ratelimit

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(time.Second, 3, func() time.Time { return now })
	take := func(key string, n int) (allowed int, wait time.Duration) {
		for range n {
			d, ok := l.Allow(key)
			if ok {
				allowed++
			}
			wait = d
		}
		return allowed, wait
	}
	if n, wait := take("ann", 5); n != 3 || wait != time.Second {
		t.Errorf("a burst: got %d, wait %s, want 3 and 1s", n, wait)
	}
	if n, _ := take("bob", 1); n != 1 {
		t.Error("keys share a bucket")
	}
	now = now.Add(2 * time.Second)
	if n, _ := take("ann", 5); n != 2 {
		t.Errorf("after two seconds: got %d, want 2", n)
	}
	now = now.Add(time.Hour)
	if n, _ := take("ann", 5); n != 3 {
		t.Errorf("a bucket that was full for long: got %d, want 3", n)
	}
}

// TestReturn: what is returned counts no more, and frees nothing that others have used.
func TestReturn(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(time.Second, 3, func() time.Time { return now })
	for range 10 {
		at := now
		if _, ok := l.Allow("ann"); !ok {
			t.Fatal("what was returned counts")
		}
		l.Return("ann", at)
	}
	free := func() (n int) {
		for n < 10 {
			if _, ok := l.Allow("ann"); !ok {
				return n
			}
			n++
		}
		return n
	}
	began := now
	l.Allow("ann")
	now = now.Add(900 * time.Millisecond)
	l.Allow("ann")
	l.Allow("ann")
	l.Return("ann", began)
	now = now.Add(100 * time.Millisecond)
	if n := free(); n != 1 {
		t.Errorf("after two of three, 0.1 s ago: got %d, want 1", n)
	}
	now = now.Add(time.Hour)
	l.Return("ann", began)
	l.Return("bob", now)
	if n := free(); n != 3 {
		t.Errorf("after a late return and one of a key that has none: got %d, want 3", n)
	}
}

// TestKeysAreBounded: keys that a client invents do not fill the memory.
func TestKeysAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(time.Second, 3, func() time.Time { return now })
	for i := range mostKeys + 10 {
		l.Allow(strconv.Itoa(i))
	}
	if len(l.buckets) > mostKeys {
		t.Errorf("%d buckets", len(l.buckets))
	}
	now = now.Add(time.Minute)
	for i := range mostKeys {
		l.Allow("later" + strconv.Itoa(i))
	}
	if _, kept := l.buckets["5"]; kept || len(l.buckets) > mostKeys {
		t.Errorf("%d buckets, and a full one is kept: %v", len(l.buckets), kept)
	}
}

// TestInventedKeysFreeNothing: keys that a client invents, however many and long, do not free one that is used up.
func TestInventedKeysFreeNothing(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(time.Second, 3, func() time.Time { return now })
	for range 3 {
		l.Allow("ann")
	}
	for i := range mostKeys + 10 {
		l.Allow(strconv.Itoa(i))
	}
	if _, ok := l.Allow("ann"); ok || len(l.buckets) > mostKeys {
		t.Errorf("allowed %v, %d buckets", ok, len(l.buckets))
	}
	l.Allow(strings.Repeat("x", 16<<10))
	for key := range l.buckets {
		if len(key) > longest {
			t.Errorf("a key of %d bytes is kept", len(key))
		}
	}
}
