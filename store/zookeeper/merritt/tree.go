package merritt

import (
	"cmp"
	"context"
	"fmt"
	gopath "path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Tree reads the nodes of ZooKeeper servers, for people. It changes nothing.
type Tree struct {
	s *session.Session
	q *queue.Queue
}

// mostConnecting bounds the time until a server answers.
const mostConnecting = 15 * time.Second

// OpenTree opens the nodes of servers, "host:port" each, as a user (digest); "": without one. The error is of kind
// Unavailable if no server answers within 15 s. The caller closes the tree.
func OpenTree(ctx context.Context, servers []string, user, password string) (*Tree, error) {
	bounded, cancel := context.WithTimeout(ctx, mostConnecting)
	defer cancel()
	s, err := session.Open(bounded, servers, session.Options{User: user, Password: password})
	at := strings.Join(servers, ",")
	switch {
	case err == nil:
	case ctx.Err() == nil && bounded.Err() != nil: // not the deadline of the caller
		return nil, job.Errorf(job.Unavailable, "open", "", "no ZooKeeper server answers at %s within %s", at,
			mostConnecting)
	default:
		return nil, job.Errorf(job.Unavailable, "open", "", "no connection with ZooKeeper at %s: %w", at, err)
	}
	return &Tree{s, queue.New(s, queue.Options{})}, nil
}

// Close ends the session.
func (t *Tree) Close() error { t.s.Close(); return nil }

// Store reports whether there is a store of Stagepost at a node, and the server that uses it, "" for none.
func (t *Tree) Store(ctx context.Context, root string) (exists bool, holder string, err error) {
	_, err = t.s.Stat(ctx, root+"/installation")
	if session.KindOf(err) == session.NoNode {
		return false, "", nil
	}
	if err != nil {
		return false, "", err
	}
	n, err := t.s.Get(ctx, root+"/lock")
	if session.KindOf(err) == session.NoNode {
		return true, "", nil
	}
	return true, cmp.Or(string(n.Data), "(unknown)"), err
}

// Unrecorded returns the batches, jobs and access requests of Merritt, none of which has a record.
func (t *Tree) Unrecorded(ctx context.Context, m Mapping) ([]Seen, error) {
	l := New(m, Options{})
	l.Attach(t.s, nil)
	seen, _, err := l.Read(ctx, nil)
	return seen, err
}

// Fault is a node that does not fit the others.
type Fault struct {
	Level   string    `json:"level"` // WARN: it may be a change that is being made
	Rule    string    `json:"rule"`  // "1" to "9": those of Merritt's orphan report
	Node    string    `json:"node"`
	Text    string    `json:"text"`
	Since   time.Time `json:"since,omitzero"`
	Remove  string    `json:"remove,omitempty"` // the node whose removal mends it
	Remedy  string    `json:"remedy"`
	Orphans bool      `json:"-"` // Merritt's own report has it too
}

// remedies are what a person does about the findings of a rule.
var remedies = map[string]string{
	"1": "remove the node: no batch has this id", "2": "examine the batch: nothing finds it by its id",
	"3": "remove the reference: its job is gone", "4": "compare the job with its batch; its next change repairs it",
	"5": "compare the job with its queue entry; the next change of the job repairs it",
	"6": "remove the entry: its job is gone", "7": "remove the directory: the batch is pending without it",
	"8": "find the worker that has the lock, and remove the lock if there is none",
	"9": "remove the entry: the job has another one", "stuck": "find the worker of this state: stagepost why JOB",
}

// Check compares all nodes with each other: the rules of Merritt's orphan report, and what that does not find.
func (t *Tree) Check(ctx context.Context) ([]Fault, error) {
	found, err := t.q.Report(ctx)
	all := make([]Fault, len(found))
	for i, f := range found {
		remedy := remedies[f.Rule]
		if remedy == "" {
			remedy = "examine the node: stagepost zk dump " + f.Path
		}
		all[i] = Fault{Level: string(f.Level), Rule: f.Rule, Node: f.Path, Text: f.Text, Since: f.Made,
			Remove: f.Deletable, Remedy: remedy, Orphans: len(f.Rule) == 1}
	}
	lengths, lerr := t.q.Lengths(ctx)
	if err != nil || lerr != nil {
		return nil, cmp.Or(err, lerr)
	}
	for _, one := range lengths {
		if one.Near {
			all = append(all, Fault{Level: string(queue.Warn), Rule: "full", Node: one.State.Queue(),
				Text: nearly(one.Entries), Remedy: "remove batches that have ended, or wait with submissions"})
		}
	}
	return all, nil
}

// Node is a node with its data.
type Node struct {
	Path      string    `json:"path"`
	Data      string    `json:"data,omitempty"`
	Bytes     int       `json:"bytes"` // of the data, of which Data has the beginning
	Version   int32     `json:"version"`
	Modified  time.Time `json:"modified"`
	Ephemeral bool      `json:"ephemeral,omitempty"`

	Restricted bool `json:"restricted,omitempty"` // to another user: it has no data here, and no nodes below it
}

// mostData bounds the data of a node in a dump, in bytes.
const mostData = 4096

// Dump returns a node and those below it, parents first, at most so many. more means that there are others. The path of
// the node may lack its first slash and have others at its end.
func (t *Tree) Dump(ctx context.Context, name string, most int) (nodes []Node, more bool, err error) {
	path := gopath.Clean("/" + name)
	waiting := []string{path}
	for len(waiting) > 0 {
		at := waiting[0]
		waiting = waiting[1:]
		if len(nodes) == most {
			return nodes, true, nil
		}
		n, err := t.s.Get(ctx, at)
		switch kind := session.KindOf(err); {
		case kind == session.NoNode && at != path:
			continue // it was removed meanwhile
		case session.Denied(err) && at != path:
			nodes = append(nodes, Node{Path: at, Restricted: true})
			continue
		case session.Denied(err):
			err = fmt.Errorf("%s is for another user: name it, zookeeper://USER@HOST, and its password file (%w)", at,
				err)
		}
		if err != nil {
			return nil, false, err
		}
		one := Node{Path: at, Bytes: len(n.Data), Version: n.Stat.Version, Modified: n.Stat.Modified,
			Ephemeral: n.Stat.Owner != 0}
		if one.Data = string(n.Data[:min(len(n.Data), mostData)]); !utf8.ValidString(one.Data) {
			one.Data = ""
		}
		nodes = append(nodes, one)
		names, _, err := t.s.Children(ctx, at)
		if err != nil && session.KindOf(err) != session.NoNode {
			return nil, false, err
		}
		slices.Sort(names)
		below := make([]string, len(names))
		for i, name := range names {
			below[i] = strings.TrimSuffix(at, "/") + "/" + name
		}
		waiting = append(below, waiting...)
	}
	return nodes, false, nil
}
