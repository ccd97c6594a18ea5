package signin_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/signin"
)

// provider is a provider of OpenID Connect that can misbehave.
type provider struct {
	*httptest.Server
	t     *testing.T
	key   *rsa.PrivateKey
	clock *servertest.Clock

	mu     sync.Mutex // guards the rest
	codes  map[string]url.Values
	twice  bool                 // it accepts a code again, and without the right verifier
	claims func(map[string]any) // changes the claims of ID tokens
	alg    string               // of the header of ID tokens; RS256 by default
	forged bool                 // another key signs
	vast   bool                 // its keys have no end
	away   string               // where its token endpoint redirects to
	asked  int                  // times that its description was asked for
	down   bool                 // it has no description
	spent  int                  // codes that it was sent
	came   chan struct{}        // gets each request for a token, which waits for go on; nil: none waits
	goOn   chan struct{}
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key, clock: servertest.NewClock(), codes: map[string]url.Values{}, alg: "RS256"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Error(err)
	}
}

func (p *provider) describe(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	p.asked++
	down := p.down
	p.mu.Unlock()
	if down {
		http.Error(w, strings.Repeat("down ", 1000), http.StatusServiceUnavailable)
		return
	}
	p.reply(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL +
		"/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}})
}

func (p *provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	vast := p.vast
	p.mu.Unlock()
	for block := bytes.Repeat([]byte(" "), 1<<20); vast; { // until the client ends the connection
		if _, err := w.Write(block); err != nil {
			return
		}
	}
	p.reply(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256",
		"n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes())}}})
}

// authorize is what the page of the provider does with the address to which the browser was sent.
func (p *provider) authorize(address string) (code string, asked url.Values) {
	p.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	q := u.Query()
	if q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" ||
		q.Get("response_type") != "code" {
		p.t.Errorf("the request is %v", q)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	code = rand.Text()
	p.codes[code] = q
	return code, q
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	if p.came != nil {
		p.came <- struct{}{}
		<-p.goOn
	}
	p.mu.Lock()
	p.spent++
	defer p.mu.Unlock()
	if p.away != "" {
		http.Redirect(w, r, p.away, http.StatusTemporaryRedirect)
		return
	}
	asked := p.codes[r.FormValue("code")]
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	right := asked.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:])
	if asked == nil || !right && !p.twice {
		w.WriteHeader(http.StatusBadRequest)
		p.reply(w, map[string]string{"error": "invalid_grant"})
		return
	}
	if !p.twice {
		delete(p.codes, r.FormValue("code"))
	}
	now := p.clock.Now()
	claims := map[string]any{"iss": p.URL, "aud": "stagepost", "sub": "1", "nonce": asked.Get("nonce"),
		"exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "preferred_username": "olga", "name": "Olga O.",
		"groups": []string{"curators"}}
	if p.claims != nil {
		p.claims(claims)
	}
	p.reply(w, map[string]any{"access_token": "at", "token_type": "Bearer", "id_token": p.sign(claims)})
}

// sign makes an ID token.
func (p *provider) sign(claims map[string]any) string {
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			p.t.Error(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	body := part(map[string]string{"alg": p.alg, "kid": "one", "typ": "JWT"}) + "." + part(claims)
	if p.alg == "none" {
		return body + "."
	}
	key := p.key
	if p.forged {
		key, _ = rsa.GenerateKey(rand.Reader, 2048)
	}
	sum := sha256.Sum256([]byte(body))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		p.t.Error(err)
	}
	return body + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// browse begins a sign-in and returns the callback and its cookie.
func (h *harness) browse(p *provider) (callback string, kept *http.Cookie) {
	h.T.Helper()
	answer, text := h.Ask(h.Request(http.MethodGet, "/sign-in/oidc?next=/healthz", ""))
	if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
		h.T.Fatalf("got %s %s", answer.Status, text)
	}
	code, asked := p.authorize(answer.Header.Get("Location"))
	return signin.CallbackPath + "?" + url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode(),
		answer.Cookies()[0]
}

// back follows a callback.
func (h *harness) back(callback string, kept *http.Cookie) (*http.Response, string) {
	h.T.Helper()
	r := h.Request(http.MethodGet, callback, "")
	if kept != nil {
		r.AddCookie(kept)
	}
	return h.Ask(r)
}

func openOIDC(t *testing.T, changes ...func(*signin.Options)) (*harness, *provider) {
	t.Helper()
	p := newProvider(t)
	rules, err := signin.ReadRules("operator=curators")
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(o *signin.Options) {
		o.OIDC = &signin.OIDC{Issuer: p.URL, Client: "stagepost", Secret: "s", Rules: rules,
			Redirect: "http://127.0.0.1/sign-in/oidc/callback"}
		for _, change := range changes {
			change(o)
		}
	})
	return h, p
}

// TestOIDC signs in by a provider that behaves. It is the control of TestHostileProvider.
func TestOIDC(t *testing.T) {
	h, p := openOIDC(t)
	p.claims = func(c map[string]any) { c["aud"], c["azp"] = []string{"stagepost", "another"}, "stagepost" }
	callback, kept := h.browse(p)
	answer, text := h.back(callback, kept)
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/healthz" {
		t.Fatalf("got %s %s", answer.Status, text)
	}
	if got := h.status(http.MethodGet, "/api/v1/counts", cookieOf(t, answer)); got != http.StatusOK {
		t.Errorf("an operator: got %d", got)
	}
	if in := h.audited("sign-in"); len(in) != 1 || in[0].Actor != "olga" ||
		in[0].Object != "oidc" || in[0].Address != "127.0.0.1" {
		t.Errorf("audited: %+v", in)
	}
}

// TestHostileProvider: what the provider answers does not sign in, and is entered in the audit list.
func TestHostileProvider(t *testing.T) {
	set := func(name string, value any) func(*provider) {
		return func(p *provider) { p.claims = func(c map[string]any) { c[name] = value } }
	}
	for what, spoil := range map[string]func(*provider){
		"alg none":          func(p *provider) { p.alg = "none" },
		"alg HS256":         func(p *provider) { p.alg = "HS256" },
		"another key":       func(p *provider) { p.forged = true },
		"wrong audience":    set("aud", "another"),
		"wrong issuer":      set("iss", "https://evil.example"),
		"wrong nonce":       set("nonce", "another"),
		"no nonce":          set("nonce", ""),
		"expired":           set("exp", time.Now().Add(-time.Hour).Unix()),
		"without a role":    set("groups", []string{"others"}),
		"without a name":    set("preferred_username", ""),
		"a hostile name":    set("preferred_username", "olga\nadmin"),
		"a reserved name":   set("preferred_username", "unknown"),
		"a name not in NFC": set("preferred_username", "Jose\u0301"),
		"issued to another": set("azp", "another"),
		"for several":       set("aud", []string{"stagepost", "another"}),
		"for several, issued to another": func(p *provider) {
			p.claims = func(c map[string]any) { c["aud"], c["azp"] = []string{"stagepost", "another"}, "another" }
		},
		"a party of no text": set("azp", 1),
		"a name of a map":    set("preferred_username", map[string]any{"x": 1}),
	} {
		t.Run(what, func(t *testing.T) {
			h, p := openOIDC(t)
			spoil(p)
			callback, kept := h.browse(p)
			answer, text := h.back(callback, kept)
			if answer.StatusCode != http.StatusForbidden {
				t.Errorf("got %s %s", answer.Status, text)
			}
			if failed := h.audited("sign-in-failed"); len(failed) != 1 {
				t.Errorf("audited: %+v", failed)
			}
		})
	}
}

// TestVastProvider: an answer without an end does not fill the memory, and what the provider sent is entered in the
// audit list in part only.
func TestVastProvider(t *testing.T) {
	h, p := openOIDC(t)
	callback, kept := h.browse(p)
	p.mu.Lock()
	p.vast = true
	p.mu.Unlock()
	answer, text := h.back(callback, kept)
	if answer.StatusCode != http.StatusForbidden || len(text) > 10_000 {
		t.Errorf("got %s with %d bytes", answer.Status, len(text))
	}
	if failed := h.audited("sign-in-failed"); len(failed) != 1 || len(failed[0].Note) > 600 {
		t.Errorf("audited: %.2000v", failed)
	}
}

// TestRedirectedToken: the code and the secret are not sent to where the token endpoint redirects.
func TestRedirectedToken(t *testing.T) {
	h, p := openOIDC(t)
	var got atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	defer other.Close()
	callback, kept := h.browse(p)
	p.mu.Lock()
	p.away = other.URL
	p.mu.Unlock()
	if answer, _ := h.back(callback, kept); answer.StatusCode != http.StatusForbidden || got.Load() > 0 {
		t.Errorf("got %s, %d requests elsewhere", answer.Status, got.Load())
	}
}

// TestProviderAway: sign-ins that follow a failure do not ask the provider again for some seconds.
func TestProviderAway(t *testing.T) {
	h, p := openOIDC(t)
	ask := func() int {
		answer, text := h.Ask(h.Request(http.MethodGet, "/sign-in/oidc?next=/healthz", ""))
		if answer.StatusCode == http.StatusBadGateway && len(text) > 10_000 {
			t.Errorf("a page of %d bytes", len(text))
		}
		return answer.StatusCode
	}
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	for range 3 {
		if got := ask(); got != http.StatusBadGateway {
			t.Errorf("got %d", got)
		}
	}
	p.mu.Lock()
	asked := p.asked
	p.down = false
	p.mu.Unlock()
	if asked != 1 {
		t.Errorf("the provider was asked %d times", asked)
	}
	h.clock.Add(time.Minute)
	if got := ask(); got != http.StatusSeeOther {
		t.Errorf("after a minute: got %d", got)
	}
}

// TestCallbacks: a callback counts once, in the browser that began, in time, and from the provider.
func TestCallbacks(t *testing.T) {
	for what, try := range map[string]func(h *harness, p *provider, callback string, kept *http.Cookie) (*http.Response,
		string){
		"replayed": func(h *harness, p *provider, callback string, kept *http.Cookie) (*http.Response, string) {
			p.twice = true // even if the provider accepts the code again
			if answer, text := h.back(callback, kept); answer.StatusCode != http.StatusSeeOther {
				t.Errorf("the first: got %s %s", answer.Status, text)
			}
			h.clock.Add(time.Minute + time.Second)
			return h.back(callback, kept)
		},
		"another browser": func(h *harness, _ *provider, callback string, _ *http.Cookie) (*http.Response, string) {
			return h.back(callback, nil)
		},
		"another sign-in": func(h *harness, p *provider, callback string, _ *http.Cookie) (*http.Response, string) {
			_, other := h.browse(p)
			return h.back(callback, other)
		},
		"another code": func(h *harness, p *provider, callback string, kept *http.Cookie) (*http.Response, string) {
			stolen, _ := h.browse(p) // its code was given for another verifier and nonce
			code, _ := url.Parse(stolen)
			own, _ := url.Parse(callback)
			q := own.Query()
			q.Set("code", code.Query().Get("code"))
			return h.back(fmt.Sprintf("%s?%s", own.Path, q.Encode()), kept)
		},
		"late": func(h *harness, _ *provider, callback string, kept *http.Cookie) (*http.Response, string) {
			h.clock.Add(11 * time.Minute)
			return h.back(callback, kept)
		},
		"another issuer": func(h *harness, _ *provider, callback string, kept *http.Cookie) (*http.Response, string) {
			return h.back(callback+"&iss=https%3A%2F%2Fevil.example", kept)
		},
		"refused": func(h *harness, _ *provider, callback string, kept *http.Cookie) (*http.Response, string) {
			return h.back(callback+"&error=access_denied", kept)
		},
	} {
		t.Run(what, func(t *testing.T) {
			h, p := openOIDC(t)
			callback, kept := h.browse(p)
			answer, text := try(h, p, callback, kept)
			if answer.StatusCode != http.StatusForbidden {
				t.Errorf("got %s %s", answer.Status, text)
			}
		})
	}
}

// TestCallbackIsRepeated: a browser that repeats a callback within a minute, as it does when the connection broke
// before the answer, gets the same outcome: one session, one entry in the audit log, one exchange of the code. Another
// browser, another code and a cookie that was made up get nothing.
func TestCallbackIsRepeated(t *testing.T) {
	h, p := openOIDC(t)
	p.twice = true // even if the provider accepts the code again
	callback, kept := h.browse(p)
	first, _ := h.back(callback, kept)
	h.clock.Add(time.Minute - time.Second)
	again, text := h.back(callback, kept)
	if again.StatusCode != http.StatusSeeOther || again.Header.Get("Location") != first.Header.Get("Location") ||
		cookieOf(t, again).Value != cookieOf(t, first).Value {
		t.Errorf("the repetition: got %s to %q: %s", again.Status, again.Header.Get("Location"), text)
	}
	if in := h.audited("sign-in"); p.spent != 1 || len(in) != 1 || len(h.files(t)) != 1 {
		t.Errorf("%d exchanges, %d sign-ins, %d sessions; want one of each", p.spent, len(in), len(h.files(t)))
	}
	if got := h.status(http.MethodGet, "/api/v1/counts", cookieOf(t, again)); got != http.StatusOK {
		t.Errorf("the session: got %d", got)
	}
	_, other := h.browse(p)
	made := *kept
	made.Value = other.Value // of another sign-in, under the name of this one
	u, err := url.Parse(callback)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	text, err = readText(kept.Value)
	if err != nil {
		t.Fatal(err)
	}
	forged := *kept
	forged.Value = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(text, `"verifier":"`,
		`"verifier":"x`, 1)))
	for what, try := range map[string]func() (*http.Response, string){
		"without the cookie":       func() (*http.Response, string) { return h.back(callback, nil) },
		"another browser":          func() (*http.Response, string) { return h.back(callback, other) },
		"another sign-in's cookie": func() (*http.Response, string) { return h.back(callback, &made) },
		"a cookie made up":         func() (*http.Response, string) { return h.back(callback, &forged) },
		"another code": func() (*http.Response, string) {
			q.Set("code", "another")
			return h.back(u.Path+"?"+q.Encode(), kept)
		},
	} {
		if answer, text := try(); answer.StatusCode != http.StatusForbidden || p.spent != 1 {
			t.Errorf("%s: got %s after %d exchanges: %s", what, answer.Status, p.spent, text)
		}
	}
}

// readText is the text of a cookie of a sign-in that has begun.
func readText(value string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(value)
	return string(text), err
}

// TestRefusedCallbackIsRepeated: a repetition of a sign-in that failed fails as before, without another exchange.
func TestRefusedCallbackIsRepeated(t *testing.T) {
	h, p := openOIDC(t)
	p.claims = func(c map[string]any) { c["groups"] = "none" }
	callback, kept := h.browse(p)
	first, before := h.back(callback, kept)
	again, after := h.back(callback, kept)
	if first.StatusCode != http.StatusForbidden || again.StatusCode != http.StatusForbidden || before != after {
		t.Errorf("got %s, then %s: %s", first.Status, again.Status, after)
	}
	if failed := h.audited("sign-in-failed"); p.spent != 1 || len(failed) != 1 {
		t.Errorf("%d exchanges, audited: %+v", p.spent, failed)
	}
}

// TestBrokenCallback: the connection of a callback breaks while the provider exchanges the code. The browser repeats
// the callback, waits for the outcome of the first one, and is signed in.
func TestBrokenCallback(t *testing.T) {
	h, p := openOIDC(t)
	callback, kept := h.browse(p)
	p.came, p.goOn = make(chan struct{}, 2), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, callback, nil)
		r.Host = "localhost"
		r.AddCookie(kept)
		h.Server.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-p.came
	cancel()
	answers := make(chan *http.Response)
	go func() {
		r := h.Request(http.MethodGet, callback, "")
		r.AddCookie(kept)
		answer, _ := h.Ask(r)
		answers <- answer
	}()
	close(p.goOn)
	answer := <-answers
	<-broken
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/healthz" || p.spent != 1 {
		t.Errorf("got %s after %d exchanges", answer.Status, p.spent)
	}
	if in := h.audited("sign-in"); len(in) != 1 {
		t.Errorf("audited: %+v", in)
	}
}
