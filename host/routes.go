package host

import (
	"slices"

	bulkhttp "github.com/stagepost/stagepost/app/bulk/http"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	customhttp "github.com/stagepost/stagepost/app/custom/http"
	flowhttp "github.com/stagepost/stagepost/app/flowfile/http"
	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/server"
)

// routes are the applications whose routes a server has.
type routes struct {
	ingest  ingesthttp.Options
	compute computehttp.Options
	flows   flowhttp.Flows
	bulk    bulkhttp.Bulk
	custom  customhttp.Lifecycles
}

// parts gives what the applications add to a server. A nil server is enough to list the routes.
func (r *routes) parts(s *server.Server) []server.Part {
	return []server.Part{ingesthttp.Part(s, r.ingest), bulkhttp.Part(s, r.bulk), customhttp.Part(s, r.custom), flowhttp.Part(s, r.flows), computehttp.Part(s, r.compute)}
}

// Routes lists the whole API.
func Routes() []server.Route {
	all := server.Routes()
	for _, p := range new(routes).parts(nil) {
		all = slices.Concat(all, p.Routes)
	}
	return all
}
