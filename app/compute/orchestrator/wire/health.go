package wire

import (
	"context"
	"net/http"
)

// Implementation is the name in our /health; the original has none.
const Implementation = "stagepost"

func pong(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, jsonMedia, []byte(`{"message":"pong"}`))
}

// health is the same on both sides. A peer that sees exactly the keys status and database talks to an original.
func health(check func(context.Context) error, c Compat, features []string) http.HandlerFunc {
	type plain struct {
		Status   string `json:"status"`
		Database string `json:"database"`
	}
	type full struct {
		plain
		Impl     string   `json:"impl"`
		Features []string `json:"features"`
	}
	body := encode(full{plain{"ok", "ok"}, Implementation, features})
	if c == Strict {
		body = encode(plain{"ok", "ok"})
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			answerEmpty(w, http.StatusServiceUnavailable)
			return
		}
		answer(w, http.StatusOK, jsonMedia, body)
	}
}
