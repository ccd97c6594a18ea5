package stores

import (
	"context"
	"errors"
	"strings"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/dirowner"
	"github.com/stagepost/stagepost/store/zookeeper"
)

// openNodes opens a store of ZooKeeper servers: "zookeeper://user@host:2181,host:2181/node". It waits while another
// server owns the store.
func openNodes(ctx context.Context, o *Options) (*Store, error) {
	servers, node, user, err := zookeeper.Parse(strings.TrimPrefix(o.Where, "zookeeper://"))
	if err != nil {
		return nil, cli.Usage(err)
	}
	if (user == "") != (o.Password == "") {
		return nil, cli.Usagef("store: a user (zookeeper://USER@HOST:2181) and store.password_file belong together")
	}
	if err := unmixed(o.Dir); err != nil {
		return nil, err
	}
	own, err := dirowner.Take(o.Dir, o.OnLock)
	if err != nil {
		return nil, runs(err)
	}
	s, err := zookeeper.Open(ctx, servers, zookeeper.Options{Root: node, User: user, Password: o.Password})
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return &Store{Jobs: s, Closer: closers{own, s}, Installation: s.Installation(), Writable: s.Writable, Nodes: s,
		Instead: "back up the nodes of ZooKeeper"}, nil
}
