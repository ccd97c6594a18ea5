package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The example of the specification.
const (
	specSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	specID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	specBody   = `{"test": 2432232314}`
	specSigned = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var specTime = time.Unix(1614265330, 0)

func parse(t *testing.T, text string) Secret {
	t.Helper()
	s, err := ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fresh(t *testing.T) Secret {
	t.Helper()
	text, err := NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func TestSignKnownVector(t *testing.T) {
	if got := Sign(specID, specTime, []byte(specBody), parse(t, specSecret)); got != specSigned {
		t.Errorf("got %s, want %s", got, specSigned)
	}
}

// TestVerify tampers with each part in turn. The first case is the control.
func TestVerify(t *testing.T) {
	secret, other := parse(t, specSecret), fresh(t)
	for name, c := range map[string]struct {
		change  func(h http.Header, body *string)
		now     time.Time
		secrets []Secret
		want    error
	}{
		"as sent":         {nil, specTime, []Secret{secret}, nil},
		"a second secret": {nil, specTime, []Secret{other, secret}, nil},
		"at the edge":     {nil, specTime.Add(Tolerance), []Secret{secret}, nil},
		"the body": {func(_ http.Header, b *string) { *b = strings.Replace(*b, "4}", "5}", 1) }, specTime,
			[]Secret{secret}, ErrSignature},
		"the body's blank": {func(_ http.Header, b *string) { *b += " " }, specTime, []Secret{secret},
			ErrSignature},
		"the id": {func(h http.Header, _ *string) { h.Set(HeaderID, "msg_other") }, specTime,
			[]Secret{secret}, ErrSignature},
		"the time": {func(h http.Header, _ *string) { h.Set(HeaderTimestamp, "1614265331") }, specTime,
			[]Secret{secret}, ErrSignature},
		"too old":         {nil, specTime.Add(Tolerance + time.Second), []Secret{secret}, ErrTimestamp},
		"from the future": {nil, specTime.Add(-Tolerance - time.Second), []Secret{secret}, ErrTimestamp},
		"far past": {func(h http.Header, _ *string) { h.Set(HeaderTimestamp, "-9223372036854775808") },
			specTime, []Secret{secret}, ErrTimestamp},
		"another secret": {nil, specTime, []Secret{other}, ErrSignature},
		"no secret":      {nil, specTime, nil, ErrSignature},
		"the zero secret": {func(h http.Header,
			b *string) {
			SetHeader(h, specID, specTime, []byte(*b), Secret{})
		}, specTime, []Secret{{}}, ErrSignature},
		"an empty password": {func(h http.Header,
			b *string) {
			SetHeader(h, specID, specTime, []byte(*b), RawSecret(""))
		}, specTime, []Secret{RawSecret("")}, ErrSignature},
		"a password": {func(h http.Header,
			b *string) {
			SetHeader(h, specID, specTime, []byte(*b), RawSecret("p"))
		}, specTime, []Secret{RawSecret("p")}, nil},
		"no id": {func(h http.Header, _ *string) { h.Del(HeaderID) }, specTime, []Secret{secret},
			ErrHeaders},
		"no time": {func(h http.Header, _ *string) { h.Del(HeaderTimestamp) }, specTime, []Secret{secret},
			ErrHeaders},
		"a time with a point": {func(h http.Header, _ *string) { h.Set(HeaderTimestamp, "1614265330.5") }, specTime,
			[]Secret{secret}, ErrHeaders},
		"no signature": {func(h http.Header, _ *string) { h.Del(HeaderSignature) }, specTime, []Secret{secret},
			ErrHeaders},
		"too many signatures": {func(h http.Header, _ *string) { h.Set(HeaderSignature, strings.Repeat("v1,x ", 17)) },
			specTime, []Secret{secret}, ErrHeaders},
		"of another version": {func(h http.Header, _ *string) { h.Set(HeaderSignature, "v2,"+specSigned[3:]) },
			specTime, []Secret{secret}, ErrSignature},
		"without a version": {func(h http.Header, _ *string) { h.Set(HeaderSignature, specSigned[3:]) }, specTime,
			[]Secret{secret}, ErrSignature},
		"one of many versions": {func(h http.Header,
			_ *string) {
			h.Set(HeaderSignature, "v1a,abc "+specSigned+" v1,%%")
		}, specTime, []Secret{secret}, nil},
		"an empty signature": {func(h http.Header, _ *string) { h.Set(HeaderSignature, "v1,") }, specTime,
			[]Secret{secret}, ErrSignature},
	} {
		h, body := http.Header{}, specBody
		SetHeader(h, specID, specTime, []byte(body), secret)
		if c.change != nil {
			c.change(h, &body)
		}
		id, err := Verify(h, []byte(body), c.now, c.secrets...)
		if !errors.Is(err, c.want) || (err == nil) != (id == specID) {
			t.Errorf("%s: got %q, %v, want %v", name, id, err, c.want)
		}
	}
}

// TestRotation signs with two secrets: a receiver may know either.
func TestRotation(t *testing.T) {
	now, older, newer := time.Now(), fresh(t), fresh(t)
	h := http.Header{}
	SetHeader(h, "id", now, []byte("{}"), older, newer)
	if n := len(strings.Fields(h.Get(HeaderSignature))); n != 2 {
		t.Errorf("got %d signatures", n)
	}
	for _, s := range []Secret{older, newer} {
		if _, err := Verify(h, []byte("{}"), now, s); err != nil {
			t.Error(err)
		}
	}
	if _, err := Verify(h, []byte("{}"), now, fresh(t)); err == nil {
		t.Error("a third secret verifies as well")
	}
}

func TestParseSecret(t *testing.T) {
	for text, ok := range map[string]bool{
		specSecret: true, specSecret[6:]: false, "": false, "whsec_": false, "whsec_s3cret!": false,
		"whsec_c2hvcnQ=":                      false,
		"whsec_" + strings.Repeat("AAAA", 22): false, "whsec_" + strings.Repeat("AAAA", 8): true,
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS": false,
	} {
		_, err := ParseSecret(text)
		if (err == nil) != ok {
			t.Errorf("%q: got %v", text, err)
		}
		if len(text) > 6 && err != nil && strings.Contains(err.Error(), strings.TrimPrefix(text, "whsec_")) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func TestSecretHides(t *testing.T) {
	s := parse(t, specSecret)
	text, err := json.Marshal(map[string]Secret{"secret": s})
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %+v %#v %s %x %d %v", s, s, s, s, s, s, []Secret{s}) + string(text)
	if strings.Count(all, "***") != 8 || strings.Contains(all, "31") || strings.Contains(all, "Mf") {
		t.Errorf("got %s", all)
	}
}

// receiver answers with a status and keeps what came.
type receiver struct {
	status int
	header http.Header
	wait   chan struct{} // if set: answers when it is closed
	got    http.Header
	body   string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	text, _ := io.ReadAll(q.Body)
	r.got, r.body = q.Header, string(text)
	if r.wait != nil {
		<-r.wait
	}
	for name, v := range r.header {
		w.Header()[name] = v
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(make([]byte, 1<<20))
}

func TestSend(t *testing.T) {
	secret := parse(t, specSecret)
	for name, c := range map[string]struct {
		status int
		header http.Header
		again  bool
		after  time.Duration
	}{
		"taken":       {200, nil, false, 0},
		"taken, 204":  {204, nil, false, 0},
		"gone":        {410, nil, false, 0},
		"not found":   {404, nil, true, 0},
		"bad":         {400, nil, true, 0},
		"broken":      {500, nil, true, 0},
		"redirected":  {302, http.Header{"Location": {"/elsewhere"}}, true, 0},
		"busy":        {429, http.Header{"Retry-After": {"120"}}, true, 2 * time.Minute},
		"unavailable": {503, http.Header{"Retry-After": {"999999"}}, true, 24 * time.Hour},
		"nonsense":    {503, http.Header{"Retry-After": {"soon"}}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := &receiver{status: c.status, header: c.header}
			web := httptest.NewServer(in)
			defer web.Close()
			now := time.Now()
			err := NewSender(Options{}).Send(t.Context(), web.URL+"/x?token=hush", "id/1", now, []byte(`{"a":1}`),
				secret)
			if c.status/100 == 2 {
				if err != nil {
					t.Fatal(err)
				}
			} else {
				var e *Error
				if !errors.As(err, &e) ||
					e.Status != c.status || e.Temporary() != c.again || e.RetryAfter != c.after ||
					e.Gone() != (c.status == 410) {
					t.Errorf("got %+v", err)
				}
				if strings.Contains(err.Error(), "hush") {
					t.Errorf("the error shows the URL: %v", err)
				}
			}
			if id, err := Verify(in.got, []byte(in.body), now, secret); id != "id/1" || err != nil ||
				in.got.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" {
				t.Errorf("got %q, %v, %v", id, err, in.got)
			}
		})
	}
}

func TestSendWithoutAnswer(t *testing.T) {
	s := NewSender(Options{Timeout: 50 * time.Millisecond})
	in := &receiver{status: 200, wait: make(chan struct{})}
	web := httptest.NewServer(in)
	defer web.Close()
	defer close(in.wait)
	for name, target := range map[string]string{
		"silence": web.URL + "/x?token=hush", "nobody": "http://127.0.0.1:1/x?token=hush", "no URL": "http://%zz/hush",
		"no scheme": "hush",
	} {
		err := s.Send(t.Context(), target, "id", time.Now(), nil, parse(t, specSecret))
		var e *Error
		if !errors.As(err, &e) || e.Status != 0 || !e.Temporary() || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Send(ctx, web.URL, "id", time.Now(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// FuzzVerify verifies untrusted headers: nothing panics, and only signed notifications are accepted.
func FuzzVerify(f *testing.F) {
	f.Add(specID, "1614265330", specSigned, specBody)
	f.Add("", "x", "v1,", "")
	f.Add(specID, "1614265330", "v1, v1,= v2,a", specBody)
	secret, err := ParseSecret(specSecret)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, at, signature, body string) {
		h := http.Header{HeaderID: {id}, HeaderTimestamp: {at}, HeaderSignature: {signature}}
		got, err := Verify(h, []byte(body), specTime, secret)
		if err == nil && (got != id || !strings.Contains(signature, Sign(id, specTime, []byte(body), secret)) &&
			at == "1614265330") {
			t.Errorf("taken: %q %q %q %q", id, at, signature, body)
		}
	})
}
