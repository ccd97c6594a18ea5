package stores

import (
	"context"
	"errors"
	"strings"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/dirowner"
	"github.com/stagepost/stagepost/store/zookeeper"
)

// openZooKeeper opens a store of ZooKeeper servers: "zookeeper://host:2181,host:2181/node". It waits while another
// server owns the store.
func openZooKeeper(ctx context.Context, o *Options) (*Store, error) {
	servers, node, err := zookeeper.Parse(strings.TrimPrefix(o.Where, "zookeeper://"))
	if err != nil {
		return nil, cli.Usage(err)
	}
	if err := unmixed(o.Dir); err != nil {
		return nil, err
	}
	own, err := dirowner.Take(o.Dir, o.OnLock)
	if err != nil {
		return nil, runs(err)
	}
	s, err := zookeeper.Open(ctx, servers, zookeeper.Options{Root: node})
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return &Store{Jobs: s, Closer: closers{own, s}, Installation: s.Installation(), Writable: s.Writable, ZooKeeper: s,
		Instead: "back up the nodes of ZooKeeper"}, nil
}
