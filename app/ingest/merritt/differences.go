package merritt

import (
	"cmp"
	"context"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// Differences returns the nodes of Merritt that no record of a store shows, or whose record has another state. fresh
// means that there is no store yet: none is created. A store that a server uses is refused.
func Differences(ctx context.Context, servers []string, o zookeeper.Options, profiles profile.Source) (
	seen []merritt.Seen, fresh bool, err error) {
	tree, err := merritt.OpenTree(ctx, servers, o.User, o.Password)
	if err != nil {
		return nil, false, err
	}
	defer tree.Close()
	at := cmp.Or(o.Root, zookeeper.DefaultRoot)
	exists, holder, err := tree.Store(ctx, at)
	switch {
	case err != nil:
		return nil, false, err
	case holder != "":
		return nil, false, job.Errorf(job.Conflict, "import", "",
			"the server %s runs on the store at %s of %s, and follows Merritt if it has --ingest-merritt on: "+
				"stagepost admin health lists what it cannot follow", holder, at, strings.Join(servers, ","))
	case !exists:
		seen, err = tree.Unrecorded(ctx, Mapping(profiles))
		return seen, true, err
	}
	store, err := zookeeper.Open(ctx, servers, o)
	if err != nil {
		return nil, false, err
	}
	defer store.Close()
	link := merritt.New(Mapping(profiles), merritt.Options{})
	if err := store.Attach(ctx, link); err != nil {
		return nil, false, err
	}
	known, err := store.Nodes(ctx)
	if err != nil {
		return nil, false, err
	}
	seen, _, err = link.Read(ctx, known)
	return seen, false, err
}
