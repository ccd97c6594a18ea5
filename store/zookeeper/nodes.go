package zookeeper

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"unicode/utf8"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// root is the node below which a store keeps its nodes; the methods return their paths.
type root string

func (r root) lock() string     { return string(r) + "/lock" }
func (r root) install() string  { return string(r) + "/installation" }
func (r root) epoch() string    { return string(r) + "/epoch" }
func (r root) commit() string   { return string(r) + "/commit" }
func (r root) counters() string { return string(r) + "/counters" }
func (r root) clock() string    { return string(r) + "/clock" }
func (r root) numbers() string  { return string(r) + "/numbers" }
func (r root) jobs() string     { return string(r) + "/jobs" }
func (r root) messages() string { return string(r) + "/messages" }
func (r root) holds() string    { return string(r) + "/holds" }
func (r root) audit() string    { return string(r) + "/audit" }

func (r root) number(kind job.Kind) string { return r.numbers() + "/" + escape(string(kind)) }
func (r root) job(id job.ID) string        { return r.jobs() + "/" + escape(string(id)) }
func (r root) message(n int64) string      { return fmt.Sprintf("%s/%016d", r.messages(), n) }
func (r root) audited(seq int64) string    { return fmt.Sprintf("%s/%016d", r.audit(), seq) }
func (r root) hold(s job.Scope) string     { return r.holds() + "/" + escape(s.String()) }

func (r root) task(id job.ID, name string) string { return r.job(id) + "/" + taskPrefix + escape(name) }

func (r root) history(id job.ID, part int64) string {
	return fmt.Sprintf("%s/%s%06d", r.job(id), historyPrefix, part)
}

// Prefixes of the children of a job.
const (
	taskPrefix    = "task-"
	historyPrefix = "history-"
)

// perPart is how many events one node of a history has.
const perPart = 50

// part returns the node of a history that has the event.
func part(seq int64) int64 { return (seq - 1) / perPart }

// escape makes a node name of any text. Names "." and ".." are reserved.
func escape(name string) string {
	e := url.PathEscape(name)
	if e == "." || e == ".." || e == "" {
		return "%" + e
	}
	return e
}

// blob are bytes that are written as a JSON text, or in base64 if they are not UTF-8. It keeps them exactly.
type blob []byte

// MarshalJSON is part of json.Marshaler.
func (b blob) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return encode(string(b)), nil
	}
	return encode([]string{base64.StdEncoding.EncodeToString(b)}), nil
}

// UnmarshalJSON is part of json.Unmarshaler.
func (b *blob) UnmarshalJSON(data []byte) error {
	*b = nil
	var text string
	switch {
	case string(data) == "null":
		return nil
	case data[0] == '"':
		err := json.Unmarshal(data, &text)
		*b = blob(text)
		return err
	}
	var coded [][]byte
	if err := json.Unmarshal(data, &coded); err != nil || len(coded) != 1 {
		return fmt.Errorf("not bytes: %.40q", data)
	}
	*b = coded[0]
	return nil
}

// encode returns the data of a node. The values are texts, numbers and times, which have JSON forms.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("store/zookeeper: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// recordNode is the data of the node of a job.
type recordNode struct {
	Row  int64   `json:"row"` // in order of creation
	Job  job.Job `json:"job"` // without Spec and Data
	Spec blob    `json:"spec"`
	Data blob    `json:"data"`
	// Words of the job
	Words string `json:"words,omitempty"`

	// the node of another system that shows the job, and whether that system's programs work on it
	Node      string `json:"node,omitempty"`
	Elsewhere bool   `json:"elsewhere,omitempty"`
}

func encodeJob(row int64, j *job.Job, node string, elsewhere bool) []byte {
	n := recordNode{Row: row, Job: *j, Spec: blob(j.Spec), Data: blob(j.Data), Words: j.Words, Node: node,
		Elsewhere: elsewhere}
	n.Job.Spec, n.Job.Data = nil, nil
	return encode(&n)
}

func decodeJob(data []byte) (*record, error) {
	var n recordNode
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, err
	}
	n.Job.Spec, n.Job.Data, n.Job.Words = json.RawMessage(n.Spec), json.RawMessage(n.Data), n.Words
	return &record{job: n.Job, row: n.Row, tasks: map[string]job.Task{}, node: n.Node, elsewhere: n.Elsewhere}, nil
}

// eventRow is an event in the data of a node of a history: a list of values, without the job and the hash before it,
// which follow from the node and from the event before. The address and the beginning of the work are the last values;
// those at the end that are empty are left out.
type eventRow struct{ event job.Event }

// fields are the values in their order.
func (e *eventRow) fields() []any {
	v := &e.event
	return []any{&v.Seq, &v.Event, &v.From, &v.To, &v.Outcome, (*uint8)(&v.By), &v.Actor, &v.Cause, &v.Note, &v.Epoch,
		&v.At, &v.Hash, &v.Address, &v.Began}
}

// withAddress is the number of values up to the address.
const withAddress = 13

// MarshalJSON is part of json.Marshaler.
func (e *eventRow) MarshalJSON() ([]byte, error) {
	fields := e.fields()
	if e.event.Began.IsZero() {
		fields = fields[:withAddress]
		if e.event.Address == "" {
			fields = fields[:withAddress-1]
		}
	}
	return encode(fields), nil
}

// UnmarshalJSON is part of json.Unmarshaler.
func (e *eventRow) UnmarshalJSON(data []byte) error {
	fields := e.fields()
	n := len(fields)
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if len(fields) > n {
		return errors.New("a newer version wrote an entry of a history: use a newer program")
	}
	if len(fields) < withAddress-1 {
		return fmt.Errorf("an event has %d values, not %d", len(fields), n)
	}
	return nil
}

func encodeEvents(events []job.Event) []byte {
	rows := make([]*eventRow, len(events))
	for i := range events {
		rows[i] = &eventRow{events[i]}
	}
	return encode(rows)
}

// decodeEvents adds the events of the next node of a history to a record.
func decodeEvents(data []byte, to *record) error {
	var rows []eventRow
	if err := json.Unmarshal(data, &rows); err != nil {
		return err
	}
	for i := range rows {
		e := &rows[i].event
		e.Job = to.job.ID
		if last := len(to.history); last > 0 {
			e.Prev = to.history[last-1].Hash
		}
		to.history = append(to.history, *e)
	}
	return nil
}

// auditNode is the data of the node of an entry of the audit log.
type auditNode struct {
	Audit job.Audit `json:"audit"` // without By, whose names have none for 0
	By    int       `json:"actor_kind"`
}

func encodeAudit(a *job.Audit) []byte {
	n := auditNode{*a, int(a.By)}
	n.Audit.By = lifecycle.Operator // not read
	return encode(&n)
}

func decodeAudit(data []byte) (job.Audit, error) {
	var n auditNode
	err := json.Unmarshal(data, &n)
	n.Audit.By = lifecycle.Actor(n.By)
	return n.Audit, err
}

// taskNode is the data of the node of a task, messageNode that of a message.
type taskNode struct {
	Task job.Task `json:"task"` // without Data
	Data blob     `json:"data"`
}

type messageNode struct {
	Message job.Message `json:"message"` // without Body
	Body    blob        `json:"body"`
}

func encodeTask(t *job.Task) []byte {
	n := taskNode{*t, blob(t.Data)}
	n.Task.Data = nil
	return encode(&n)
}

func decodeTask(data []byte) (job.Task, error) {
	var n taskNode
	err := json.Unmarshal(data, &n)
	n.Task.Data = json.RawMessage(n.Data)
	return n.Task, err
}

func encodeMessage(m *job.Message) []byte {
	n := messageNode{*m, blob(m.Body)}
	n.Message.Body = nil
	return encode(&n)
}

func decodeMessage(data []byte) (job.Message, error) {
	var n messageNode
	err := json.Unmarshal(data, &n)
	n.Message.Body = json.RawMessage(n.Body)
	return n.Message, err
}

// countersNode is the data of the node counters.
type countersNode struct {
	Posted int64 `json:"posted"` // highest number of a message
	Rows   int64 `json:"rows"`   // highest row of a record
}

// unescape is the inverse of escape.
func unescape(name string) (string, error) {
	switch name {
	case "%", "%.", "%..":
		return name[1:], nil
	}
	return url.PathUnescape(name)
}
