package zookeeper_test

import (
	"slices"
	"testing"

	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// The nodes of the store are beside those of an ingest queue: the report of the queue finds nothing, and its nodes are
// those that a queue without the store has.
func TestBesideQueue(t *testing.T) {
	srv := zktest.Shared(t)
	c, err := session.Open(t.Context(), []string{srv.Address}, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := queue.New(c, queue.Options{})
	if err := q.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw := srv.Raw(t)
	before, _, err := raw.Children("/")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, srv, zookeeper.Options{})
	if _, err := s.Create(t.Context(), made("tst_1", "")); err != nil {
		t.Fatal(err)
	}
	after, _, err := raw.Children("/")
	if err != nil {
		t.Fatal(err)
	}
	after = slices.DeleteFunc(after, func(name string) bool { return name == "stagepost" })
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(before, after) {
		t.Errorf("the store added %q to %q", after, before)
	}
	if findings, err := q.Report(t.Context()); err != nil || len(findings) > 0 {
		t.Errorf("the report has %v, %v", findings, err)
	}
}
