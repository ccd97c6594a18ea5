package zookeeper_test

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// below lists a node and all below it as a connection sees them.
func below(t *testing.T, c *zk.Conn, path string) []string {
	t.Helper()
	names, _, err := c.Children(path)
	if err != nil {
		t.Fatal(path, err)
	}
	all := []string{path}
	for _, name := range names {
		all = append(all, below(t, c, path+"/"+name)...)
	}
	return all
}

// TestAccessLists: the nodes of a store with a user are for this user alone, also those that were made without it
// before. Another client neither reads nor changes one; the control is the store before, which every client may change
// and which warns of that.
func TestAccessLists(t *testing.T) {
	srv, err := zktest.Start() // the server that tests share is cleared by a client without a user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	raw := srv.Raw(t)
	s := open(t, srv, zookeeper.Options{})
	if _, err := s.Create(t.Context(), made("tst_1", "")); err != nil {
		t.Fatal(err)
	}
	if len(s.Warnings()) != 1 {
		t.Errorf("the control: warnings %q", s.Warnings())
	}
	if _, err := raw.Set("/stagepost/numbers", nil, -1); err != nil {
		t.Errorf("the control: an open node cannot be changed: %v", err)
	}
	s.Close()
	credentials := zookeeper.Options{User: "stagepost", Password: "p:assword"}
	for range 2 { // the second time nothing is open
		s = open(t, srv, credentials)
		if len(s.Warnings()) > 0 {
			t.Errorf("warnings %q", s.Warnings())
		}
		s.Close()
	}
	s = open(t, srv, credentials)
	if _, err := s.Create(t.Context(), made("tst_2", "")); err != nil {
		t.Fatal(err)
	}
	held := job.Hold{Scope: job.Scope{Group: "maps"}, Who: "olga", Why: "a test"}
	if _, err := s.Hold(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	own := srv.Raw(t)
	if err := own.AddAuth("digest", []byte("stagepost:p:assword")); err != nil {
		t.Fatal(err)
	}
	paths := below(t, own, "/stagepost")
	if len(paths) < 12 {
		t.Errorf("only %d nodes", len(paths))
	}
	for _, path := range paths {
		_, _, read := raw.Get(path)
		_, write := raw.Set(path, nil, -1)
		_, add := raw.Create(path+"/x", nil, 0, zk.WorldACL(zk.PermAll))
		_, open := raw.SetACL(path, zk.WorldACL(zk.PermAll), -1)
		for what, err := range map[string]error{"read": read, "set": write, "create": add, "set access": open} {
			if !errors.Is(err, zk.ErrNoAuth) && !(what == "create" && errors.Is(err, zk.ErrNoChildrenForEphemerals)) {
				t.Errorf("%s of %s by another client: %v", what, path, err)
			}
		}
	}
	s.Close()
	for name, o := range map[string]zookeeper.Options{"no user": {}, "a wrong password": {User: "stagepost",
		Password: "another"}} {
		o.SessionTimeout = 20 * zktest.Tick
		if s, err := zookeeper.Open(t.Context(), []string{srv.Address}, o); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("%s: %v, %v", name, s != nil, err)
		}
	}
}

// TestParse: the user of an address.
func TestParse(t *testing.T) {
	servers, node, user, err := zookeeper.Parse("ann@zk1,zk2:2182/a/b/")
	if err != nil || len(servers) != 2 || servers[0] != "zk1:2181" || node != "/a/b" || user != "ann" {
		t.Errorf("got %q %q %q %v", servers, node, user, err)
	}
	for _, wrong := range []string{"@zk1", "ann:secret@zk1", "a,b@zk1", ""} {
		if _, _, _, err := zookeeper.Parse(wrong); job.KindOf(err) != job.Invalid {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
