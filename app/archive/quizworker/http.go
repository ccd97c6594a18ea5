package quizworker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// maxOrder bounds the body of a request.
const maxOrder = 4 << 20

// appName is what the plugins expect at /.
const appName = "Stagepost quiz archive worker"

// Handler serves the protocol. A request has a token of Options.Tokens: as a bearer token, in the header
// X-Worker-Token, or as the first element of the path (https://HOST/TOKEN), for plugins that know an address only.
// refused gets the requests without a valid token, without their paths, which may have one in it; nil: nothing does.
func (a *App) Handler(refused func(*http.Request, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"app": appName, "version": a.options.Version})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"version": a.options.Version})
	})
	mux.HandleFunc("GET /status", a.status)
	mux.HandleFunc("GET /status/{uuid}", a.jobStatus)
	mux.HandleFunc("POST /archive/archivingmod_quiz", a.order(false))
	mux.HandleFunc("POST /archive", a.order(true))
	mux.HandleFunc("POST /archive/quiz_archiver", a.order(true))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		inner, _, ok := a.admit(r)
		if !ok {
			if refused != nil {
				refused(withoutPath(r), errToken)
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "the request needs a token of this worker: in the header "+
				"Authorization, or in the address of the worker as https://HOST/TOKEN")
			return
		}
		mux.ServeHTTP(w, inner)
	})
}

// errToken is why a request is refused.
var errToken = errors.New("the request has no token of the quiz archive worker")

// withoutPath returns a request for the log.
func withoutPath(r *http.Request) *http.Request {
	shown := r.Clone(r.Context())
	shown.URL.Path, shown.URL.RawPath, shown.URL.RawQuery = "/"+job.Withheld, "", ""
	return shown
}

// Sender returns a name for the sender of a request with a valid token, which does not show the token; "" for other
// requests.
func (a *App) Sender(r *http.Request) string {
	_, token, _ := a.admit(r)
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return "the token of the quiz archive worker with the SHA-256 " + hex.EncodeToString(sum[:4]) + "..."
}

// admit checks the token of a request, and removes it from the path. token is empty if none is needed.
func (a *App) admit(r *http.Request) (inner *http.Request, token string, ok bool) {
	if len(a.access.Load().tokens) == 0 {
		return r, "", loopback(r)
	}
	given := r.Header.Get("X-Worker-Token")
	if text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		given = text
	}
	if a.valid(given) {
		return r, given, true
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !a.valid(first) {
		return nil, "", false
	}
	inner = r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = "/"+rest, ""
	return inner, first, true
}

// valid compares with all tokens in constant time.
func (a *App) valid(given string) bool {
	sum, found := sha256.Sum256([]byte(given)), 0
	for _, one := range a.access.Load().tokens {
		want := sha256.Sum256([]byte(one))
		found |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	return found == 1 && given != ""
}

// loopback reports whether a request is of this machine, and names it by an address or localhost: a page in a browser
// cannot reach the worker by a name of its own.
func loopback(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() || r.Header.Get("Origin") != "" ||
		r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func reply(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // the caller is gone if this fails
}

func refuse(w http.ResponseWriter, code int, message string) {
	reply(w, code, map[string]string{"error": message})
}

// unavailable answers where the records cannot be read now.
func unavailable(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "5")
	refuse(w, http.StatusServiceUnavailable, job.Reason(err))
}

// status answers with all fields that plugins read, queue_len included (defect B20).
func (a *App) status(w http.ResponseWriter, r *http.Request) {
	if a.engine == nil {
		unavailable(w, errors.New("the engine does not run yet"))
		return
	}
	working, queued, err := a.open(r.Context())
	if err != nil {
		unavailable(w, err)
		return
	}
	state := "IDLE"
	switch {
	case a.options.Printer == nil:
		state = "UNAVAILABLE"
	case len(working)+len(queued) >= a.options.Jobs+a.options.Queue:
		state = "BUSY"
	case len(working)+len(queued) > 0:
		state = "ACTIVE"
	}
	reply(w, http.StatusOK, map[string]any{
		"status": state, "jobs_processing": working, "jobs_queued": queued, "queue_len": len(queued),
		"jobs_max": a.options.Jobs, "queue_max": a.options.Queue,
	})
}

// jobStatus answers with the status as a word, and as the number that Moodle stores.
func (a *App) jobStatus(w http.ResponseWriter, r *http.Request) {
	if a.engine == nil {
		unavailable(w, errors.New("the engine does not run yet"))
		return
	}
	j, err := a.find(r.Context(), r.PathValue("uuid"))
	switch {
	case err != nil && job.KindOf(err) == job.NotFound:
		refuse(w, http.StatusNotFound, job.Reason(err))
	case err != nil:
		unavailable(w, err)
	default:
		s := statusOf(j.Position)
		reply(w, http.StatusOK, map[string]any{"id": r.PathValue("uuid"), "status": s.Name, "status_code": s.Number})
	}
}

// order takes an order. The plugin archivingmod_quiz casts the status to an integer, so that it gets the number that
// Moodle stores (defect B20); quiz_archiver compares words.
func (a *App) order(legacy bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOrder))
		if err != nil {
			refuse(w, http.StatusBadRequest, "the request cannot be read: "+err.Error())
			return
		}
		s, token, err := parse(text, legacy)
		var j job.Job
		if err == nil {
			j, err = a.submit(context.WithoutCancel(r.Context()), &s, token)
		}
		if err != nil {
			refused(w, err)
			return
		}
		status := statusOf(j.Position)
		body := map[string]any{"jobid": s.UUID, "status": status.Number, "status_name": status.Name}
		if legacy {
			body["status"] = status.Name
		}
		reply(w, http.StatusOK, body)
	}
}

// refused answers an order that is not taken.
func refused(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "60")
		refuse(w, http.StatusTooManyRequests, err.Error())
	case errors.Is(err, errOrder), errors.Is(err, errForeign), errors.Is(err, errProbe):
		refuse(w, http.StatusBadRequest, strings.ReplaceAll(err.Error(), "\n", ": "))
	case errors.Is(err, errPrinter):
		refuse(w, http.StatusServiceUnavailable, err.Error()+": apt-get install chromium ghostscript on its machine")
	default:
		unavailable(w, err)
	}
}
