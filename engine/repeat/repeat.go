// Package repeat finds requests that were sent again under their idempotency key. A [Request] lies in the context of a
// request. The engine keeps its digest in the first entry of the history of a new job that has a key. An order that
// finds the job of an earlier one notes that, and is refused if it is the order of another request
// (draft-ietf-httpapi-idempotency-key-header-07, section 2.4).
package repeat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
)

// begin begins the cause of the first entry of a history whose order had a key and a digest.
const begin = "request="

// digestBytes is the length of a digest. It is short, so that a secret in a request cannot be found from it.
const digestBytes = 4

// Request is what is noted about one request. Its methods may be called by several goroutines, and on nil.
type Request struct {
	digest atomic.Pointer[string]
	found  atomic.Bool
}

type key struct{}

// With returns a context with a new Request.
func With(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, &Request{}) }

// Of returns the Request of a context; nil if it has none.
func Of(ctx context.Context) *Request {
	r, _ := ctx.Value(key{}).(*Request)
	return r
}

// Asks sets the digest: of the JSON of what a request asks for, without the members of an object that are left out. Nil
// has no digest.
func (r *Request) Asks(v any, without ...string) error {
	if r == nil || v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return job.Errorf(job.Invalid, "request", "", "%w", err)
	}
	members := map[string]json.RawMessage{}
	if bytes.HasPrefix(text, []byte("{")) {
		if err := json.Unmarshal(text, &members); err != nil {
			return job.Errorf(job.Invalid, "request", "", "%w", err)
		}
		for _, name := range without {
			delete(members, name)
		}
		for _, name := range []string{"requires", "tags"} { // their order means nothing
			var list []string
			if json.Unmarshal(members[name], &list) == nil && len(list) > 0 {
				members[name], _ = json.Marshal(job.Tagged(list...)) // texts can be marshalled
			}
		}
		if text, err = json.Marshal(members); err != nil {
			return job.Errorf(job.Internal, "request", "", "%w", err)
		}
	}
	sum := sha256.Sum256(text)
	r.digest.Store(new(begin + hex.EncodeToString(sum[:digestBytes])))
	return nil
}

// Digest returns the digest as the cause of an entry; "" if there is none.
func (r *Request) Digest() string {
	if r == nil || r.digest.Load() == nil {
		return ""
	}
	return *r.digest.Load()
}

// Found reports whether the job of an earlier request was found under the key.
func (r *Request) Found() bool { return r != nil && r.found.Load() }

// Again notes that the key has made a job already. It refuses the request, with kind Conflict, if the job was made for
// another one. Jobs of earlier versions, and those that no request made, have no digest and are not compared.
func Again(ctx context.Context, s job.Jobs, j *job.Job) error {
	r := Of(ctx)
	if r == nil {
		return nil
	}
	r.found.Store(true)
	digest := r.Digest()
	if digest == "" {
		return nil
	}
	first, err := s.History(ctx, j.ID, 0, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	if was := first[0].Cause; IsDigest(was) && was != digest {
		return job.Errorf(job.Conflict, "create", "",
			"this idempotency key was used for another request: choose another key, or repeat the request as it was")
	}
	return nil
}

// IsDigest reports whether the cause of an entry is a digest and no cause for people.
func IsDigest(cause string) bool { return strings.HasPrefix(cause, begin) }
