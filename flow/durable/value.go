package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
)

// stored is a value in a record: as JSON, or as a reference to a large value.
type stored struct {
	Value  json.RawMessage `json:"v,omitempty"`
	Digest string          `json:"blob,omitempty"`
	Size   int64           `json:"size,omitempty"`
}

// encode gives the JSON of a value. Errors: [flow.ErrUnstored] with the value's type, for what JSON cannot hold.
func encode(v any) (text []byte, err error) {
	whole := flow.ValueOf(v)
	refuse := func(err error) error {
		var wrapped *json.MarshalerError
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return &flow.Error{Kind: flow.ErrUnstored, Text: fmt.Sprintf("a value of type %T cannot be stored as JSON",
			whole.Any()), Err: err}
	}
	defer func() {
		if p := recover(); p != nil { // of a type's own MarshalJSON
			text, err = nil, refuse(fmt.Errorf("it panicked: %v", p))
		}
	}()
	if text, err = json.Marshal(whole); err != nil {
		return nil, refuse(err)
	}
	return text, nil
}

// valueOf wraps JSON.
func valueOf(text []byte) flow.Value {
	var v flow.Value
	_ = v.UnmarshalJSON(text) // it copies the text
	return v
}

// check reports whether a value of n bytes may be stored.
func (f *Flows) check(n int) error {
	switch {
	case n > f.o.Limits.Value:
		return &flow.Error{Kind: flow.ErrUnstored,
			Text: fmt.Sprintf("a value of %d bytes is larger than the limit of %d", n, f.o.Limits.Value)}
	case n > f.o.Limits.Inline && f.o.Blobs == nil:
		return &flow.Error{Kind: flow.ErrUnstored,
			Text: fmt.Sprintf("a value of %d bytes is larger than %d, and there is no storage for large values", n,
				f.o.Limits.Inline)}
	}
	return nil
}

// keep gives a value the form that it has in a record, and writes a large one to Blobs. Errors: [flow.ErrUnstored];
// those of Blobs.
func (f *Flows) keep(ctx context.Context, id job.ID, text []byte) (stored, error) {
	if err := f.check(len(text)); err != nil {
		return stored{}, err
	}
	if len(text) <= f.o.Limits.Inline {
		return stored{Value: text}, nil
	}
	digest := digestOf(text)
	if err := f.o.Blobs.Put(ctx, id, digest, text); err != nil {
		return stored{}, fmt.Errorf("put away a value of %d bytes: %w", len(text), err)
	}
	return stored{Digest: digest, Size: int64(len(text))}, nil
}

// fetch gives a value back. Errors are of kind Internal if it is lost or damaged; those of Blobs.
func (f *Flows) fetch(ctx context.Context, id job.ID, s *stored) (flow.Value, error) {
	if s.Digest == "" {
		return valueOf(s.Value), nil
	}
	text, err := f.Value(ctx, id, Blob{s.Digest, s.Size})
	if err != nil {
		return flow.Value{}, err
	}
	return valueOf(text), nil
}

// Value gives the JSON of a large value of a flow. Errors are of kind Internal if it is lost or damaged; those of
// Blobs.
func (f *Flows) Value(ctx context.Context, id job.ID, b Blob) ([]byte, error) {
	if f.o.Blobs == nil {
		return nil, job.Errorf(job.Internal, "read", id,
			"the value %s was put away, and there is no storage for large values here", b.Digest)
	}
	text, err := f.o.Blobs.Get(ctx, id, b.Digest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, job.Errorf(job.Internal, "read", id, "the value %s is lost", b.Digest)
	case err != nil:
		return nil, err
	case int64(len(text)) != b.Size || digestOf(text) != b.Digest:
		return nil, job.Errorf(job.Internal, "read", id, "the value %s is damaged", b.Digest)
	}
	return text, nil
}
