package openapi

import (
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagepost/stagepost/api"
)

// versioned are the answers with the version of a record, which their ETag repeats.
var versioned = []any{api.Job{}, api.ComputeJob{}, api.Flow{}}

// Headers that operations read, each where the types of its bodies have a field for it or it has an effect.
var (
	idempotencyKey = Parameter{Name: "Idempotency-Key", Doc: "As the field key; both must not differ."}
	onceKey        = Parameter{Name: "Idempotency-Key",
		Doc: "A repetition under this key within an hour gets the answer of the first request."}
	jobKey = Parameter{Name: "Idempotency-Key",
		Doc: "A repetition under this key gets the job of the first request."}
	ifMatch     = Parameter{Name: "If-Match", Doc: "The ETag of the job; the answer is 412 if it has changed."}
	ifNoneMatch = Parameter{Name: "If-None-Match", Doc: "An ETag; the answer is 304 if the job has not changed."}
	lastEventID = Parameter{Name: "Last-Event-ID",
		Doc: "Id of the last message received; the stream continues after it."}
	byteRange = Parameter{Name: "Range", Doc: "The bytes of the file to send."}
)

// headers lists the headers that an operation reads.
func (o *Operation) headers() (all []Parameter) {
	if o.has("key") {
		all = append(all, idempotencyKey)
	}
	if o.Keyed {
		all = append(all, jobKey)
	}
	if o.Once {
		all = append(all, onceKey)
	}
	if o.has("version") {
		all = append(all, ifMatch)
	}
	if o.Method == "GET" && o.hasETag() {
		all = append(all, ifNoneMatch)
	}
	if len(o.Events) > 0 {
		all = append(all, lastEventID)
	}
	if _, partial := o.Also[206]; partial {
		all = append(all, byteRange)
	}
	return all
}

// sends returns the headers that each success of an operation has.
func (o *Operation) sends() map[string]*huma.Param {
	all := map[string]*huma.Param{}
	add := func(name, doc string) {
		all[name] = &huma.Param{Description: doc, Required: true, Schema: &huma.Schema{Type: "string"}}
	}
	if o.hasETag() {
		add("ETag", "Version of the record and a hash of the answer.")
	}
	if o.has("key") && o.status() > 200 {
		add("Location", "Path of what was created.")
	}
	if o.has("key") || o.Keyed {
		all["Idempotency-Replayed"] = &huma.Param{Schema: &huma.Schema{Type: "string", Enum: []any{"true"}},
			Description: "Present if the request was sent again under its key: the job is that of the first request."}
	}
	if o.Once {
		all["Idempotency-Replayed"] = &huma.Param{Schema: &huma.Schema{Type: "string", Enum: []any{"true"}},
			Description: "Present if the request was sent again under its key: the answer is that of the first one."}
	}
	return all
}

// hasETag reports whether the answer has the version of a record.
func (o *Operation) hasETag() bool {
	return slices.ContainsFunc(versioned, func(v any) bool { return reflect.TypeOf(v) == reflect.TypeOf(o.Out) })
}

// has reports whether the body has a field.
func (o *Operation) has(name string) bool {
	bodies := []any{o.In}
	for _, part := range o.Parts {
		bodies = append(bodies, part)
	}
	return slices.ContainsFunc(bodies, func(of any) bool {
		t := reflect.TypeOf(of)
		if t == nil || t.Kind() != reflect.Struct {
			return false
		}
		return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
			field, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return field == name
		})
	})
}
