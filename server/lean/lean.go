// Package lean writes the answers to workers without reflection: they limit the throughput of the API. Their shapes are
// api.Claimed and api.Results; a test compares the texts with those of encoding/json.
package lean

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }}

// Reply answers with the JSON that write appends.
func Reply(w http.ResponseWriter, write func([]byte) []byte) error {
	p := buffers.Get().(*[]byte)
	*p = write((*p)[:0])
	h := w.Header()
	h["Content-Type"] = jsonType
	if len(*p) > buffered {
		h["Content-Length"] = []string{strconv.Itoa(len(*p))}
	}
	_, _ = w.Write(*p) // the reader has disconnected
	if cap(*p) <= 1<<20 {
		buffers.Put(p)
	}
	return nil
}

// buffered is the size of an answer up to which net/http writes its Content-Length itself. A ninth header in the map
// costs a larger map.
const buffered = 2048

var jsonType = []string{"application/json"}

// AppendClaimed appends the answer to a claim.
func AppendClaimed(b []byte, jobs []job.Job) []byte {
	b = append(b, `{"jobs":[`...)
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLeased(b, &jobs[i], jobs[i].Spec)
	}
	return append(b, "]}\n"...)
}

func appendLeased(b []byte, j *job.Job, spec json.RawMessage) []byte {
	b = appendText(append(b, `{"id":`...), string(j.ID))
	b = appendText(append(b, `,"kind":`...), string(j.Kind))
	b = appendText(append(b, `,"state":`...), string(j.State))
	b = strconv.AppendInt(append(b, `,"epoch":`...), j.Epoch, 10)
	b = appendTime(append(b, `,"until":`...), j.Until)
	b = appendCount(b, `,"attempts":`, j.Attempts)
	b = appendCount(b, `,"starts":`, j.Starts)
	b = appendCount(b, `,"retries":`, j.Retries)
	if !j.Expires.IsZero() {
		b = appendTime(append(b, `,"expires":`...), j.Expires)
	}
	b = appendSome(b, `,"parent":`, string(j.Parent))
	b = appendSome(b, `,"group":`, j.Group)
	b = appendSome(b, `,"owner":`, j.Owner)
	b = appendRaw(b, `,"spec":`, spec)
	b = appendRaw(b, `,"data":`, j.Data)
	b = appendSome(b, `,"definition":`, j.Definition)
	b = appendList(b, `,"tags":[`, j.Tags)
	b = appendList(b, `,"requires":[`, j.Requires)
	if !j.Deadline.IsZero() {
		b = appendTime(append(b, `,"deadline":`...), j.Deadline)
	}
	if j.Children.Expected > 0 {
		text, _ := json.Marshal(&j.Children) // plain fields: cannot fail
		b = append(append(b, `,"children":`...), text...)
	}
	return append(b, '}')
}

// appendList appends texts behind the name of their field and "[", nothing if there are none.
func appendList(b []byte, name string, texts []string) []byte {
	if len(texts) == 0 {
		return b
	}
	b = append(b, name...)
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, text)
	}
	return append(b, ']')
}

// AppendResults appends the answer to the reports of a worker. With leased it has the jobs that stay with the worker.
func AppendResults(b []byte, worker string, results []job.Result, leased bool) []byte {
	b = append(b, `{"results":[`...)
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		j := &results[i].Job
		b = appendText(append(b, `{"job":`...), string(j.ID))
		if err := results[i].Err; err != nil {
			text, _ := json.Marshal(problem.Of(err)) // plain fields: cannot fail
			b = append(append(append(b, `,"problem":`...), text...), '}')
			continue
		}
		b = appendSome(b, `,"state":`, string(j.State))
		b = appendSome(b, `,"outcome":`, string(j.Outcome))
		if j.Ended {
			b = append(b, `,"ended":true`...)
		}
		if j.Worker == worker && !j.Ended {
			b = append(b, `,"held":true`...)
		}
		b = appendCount(b, `,"epoch":`, int(j.Epoch))
		if j.Worker == worker && !j.Ended {
			b = appendTime(append(b, `,"until":`...), j.Until)
			if leased {
				b = appendLeased(append(b, `,"leased":`...), j, nil)
			}
		}
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
}

func appendCount(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), int64(n), 10)
}

func appendSome(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(append(b, name...), text)
}

func appendRaw(b []byte, name string, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return b
	}
	return append(append(b, name...), raw...)
}

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// appendText quotes a text; all that is not plain ASCII goes the long way.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // a string: cannot fail
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
