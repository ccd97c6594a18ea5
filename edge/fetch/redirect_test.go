package fetch

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestRedirectsAreJudgedLikeTheFirstURL(t *testing.T) {
	var location, hits atomic.Value
	hits.Store("")
	secret := serve(t, func(w http.ResponseWriter, r *http.Request) { hits.Store(r.URL.Path) })
	fake := &network{names: networkNames()}
	entry := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", location.Load().(string))
		w.WriteHeader(http.StatusFound)
	})
	entryPort := entry[strings.LastIndex(entry, ":")+1:]
	p := Policy{Retries: -1, OwnAddresses: ownPublic, Lookup: fake.lookup, Allow: loopback[:0]}
	p.Dial = tunnel(strings.TrimPrefix(entry, "http://"))
	c := newClient(t, p)
	targets := append(hostileURLs(), secret+"/", "http://127.0.0.1:"+entryPort+"/")
	for _, u := range targets {
		if strings.ContainsAny(u, "\r\n\t") || u == "" || strings.HasPrefix(u, "/") || !strings.Contains(u, ":") {
			continue // cannot stand in a header, or is a relative reference
		}
		location.Store(u)
		_, err := c.Head(context.Background(), "http://example.org/")
		if got := kindOf(t, err); got != Refused {
			t.Errorf("redirect to %.80q: kind %q (%v), want refused", u, got, err)
		}
	}
	if got := hits.Load(); got != "" {
		t.Errorf("the secret server was asked for %q", got)
	}
}

func TestRedirectCount(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscanf(r.URL.Path, "/%d", &n)
		if n == 0 {
			w.Header().Set("Content-Length", "3")
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/%d", n-1), []int{301, 302, 303, 307, 308}[n%5])
	})
	c := newClient(t, local())
	info, err := c.Head(context.Background(), url+"/5")
	wantKind(t, err, "")
	if info.Size != 3 {
		t.Errorf("size %d, want 3", info.Size)
	}
	_, err = c.Head(context.Background(), url+"/6")
	wantKind(t, err, Refused)
	p := local()
	p.MaxRedirects = -1
	_, err = newClient(t, p).Head(context.Background(), url+"/1")
	wantKind(t, err, Refused)
}

func TestRedirectLoop(t *testing.T) {
	var hits atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		http.Redirect(w, r, "/", http.StatusFound)
	})
	p := local()
	p.Retries = 3
	_, err := newClient(t, p).Head(context.Background(), url)
	wantKind(t, err, Refused)
	if got := hits.Load(); got != 6 {
		t.Errorf("%d requests, want 6 (a loop is not tried again)", got)
	}
}

func TestRedirectWithoutTarget(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusFound) })
	_, err := newClient(t, local()).Head(context.Background(), url)
	wantKind(t, err, Status)
}

func TestCredentialsStayWithTheirOrigin(t *testing.T) {
	var seen []string
	record := func(r *http.Request) {
		user, password, _ := r.BasicAuth()
		seen = append(seen, r.URL.Path+" "+user+":"+password+r.Referer())
	}
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { record(r) })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		record(r)
		switch r.URL.Path {
		case "/a":
			http.Redirect(w, r, "/b", http.StatusFound)
		case "/b":
			http.Redirect(w, r, strings.Replace(other, "http://", "http://evil:twin@", 1)+"/c", http.StatusFound)
		}
	})
	c := newClient(t, local())
	if _, err := c.Head(context.Background(), strings.Replace(url, "http://", "http://ann:pass@", 1)+"/a"); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(seen, ", "), "/a ann:pass, /b ann:pass, /c :"; got != want {
		t.Errorf("servers saw %q, want %q", got, want)
	}
}

func TestErrorsHideSecrets(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) })
	c := newClient(t, local())
	for _, u := range []string{
		strings.Replace(url, "http://", "http://ann:hunter2@", 1) + "/x?X-Amz-Signature=hunter2&id=7",
		"http://ann:hunter2@127.0.0.1:25/", "http://ann:hunter2/@example.org/", "ftp://ann:hunter2@example.org/",
		"http://ann:hunter2@exa mple.org/",
	} {
		_, err := c.Head(context.Background(), u)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v, want one without the secret", u, err)
		}
	}
	_, err := c.Head(context.Background(), url+"/x?id=7&token=hunter2")
	if !strings.Contains(err.Error(), "/x?id=7&token=***") {
		t.Errorf("error %v, want the rest of the URL in it", err)
	}
}

func TestNoProxyFromTheEnvironment(t *testing.T) {
	var proxied atomic.Bool
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { proxied.Store(true) })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	fake := &network{names: networkNames()}
	_, err := newClient(t, Policy{Retries: -1, OwnAddresses: noOwn, Lookup: fake.lookup,
		Dial: fake.dial}).Head(context.Background(), "http://example.org/")
	wantKind(t, err, Network)
	if proxied.Load() || len(fake.dialled) != 1 || fake.dialled[0] != "93.184.216.34:80" {
		t.Errorf("proxied %v, dialled %q", proxied.Load(), fake.dialled)
	}
}
