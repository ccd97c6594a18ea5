package stores

import (
	"context"
	"strings"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/store/zookeeper"
)

// openNodes opens a store of ZooKeeper servers: "zookeeper://host:2181,host:2181/node". It waits while another
// server owns the store.
func openNodes(ctx context.Context, o *Options) (*Store, error) {
	servers, node, err := zookeeper.Parse(strings.TrimPrefix(o.Where, "zookeeper://"))
	if err != nil {
		return nil, cli.Usage(err)
	}
	s, err := zookeeper.Open(ctx, servers, zookeeper.Options{Root: node})
	if err != nil {
		return nil, err
	}
	if err := o.locked(); err != nil {
		s.Close()
		return nil, err
	}
	return &Store{Jobs: s, Closer: s, Installation: s.Installation(), Writable: s.Writable, Nodes: s,
		Instead: "back up the nodes of ZooKeeper"}, nil
}
