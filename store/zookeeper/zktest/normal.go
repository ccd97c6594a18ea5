package zktest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

// skeleton are the nodes that every tree of Merritt has, besides those of the states of jobs.
var skeleton = strings.Fields("/batches /batch-uuids /jobs /jobs/states /access /access/small /access/large /locks " +
	"/locks/queue /locks/localid /locks/storage /locks/inventory /locks/collections")

var (
	idPattern = regexp.MustCompile(`(bid|jid|qid)\d{10}`)
	uuidName  = regexp.MustCompile(`bid-[0-9a-z_]{6,}`)
	timeKey   = regexp.MustCompile(`"last_modified":"[^"]*"`)
	ownID     = regexp.MustCompile(`_[0-9A-Z]{26}`)
	ownKeys   = regexp.MustCompile(`,?"stagepost_(operation":"[^"]*"|expected":\d+)`)
)

// Normal returns the nodes of Merritt as sorted lines "PATH DATA" that do not depend on the run: ids are numbered in
// their order (bid0, jid0, qid0), times are "now", and keys and ids that only Stagepost writes are left out. Of a
// submission and of a configuration "..." is left. Left out are nodes that every tree has, nodes that only have
// children, and the nodes below /stagepost.
func Normal(t testing.TB, c *zk.Conn) []string {
	t.Helper()
	all := Tree(t, c, "/")
	ids := map[string]string{}
	count := map[string]int{}
	rename := func(text string) string {
		return uuidName.ReplaceAllString(idPattern.ReplaceAllStringFunc(text, func(id string) string {
			if ids[id] == "" {
				ids[id] = fmt.Sprint(id[:3], count[id[:3]])
				count[id[:3]]++
			}
			return ids[id]
		}), "uuid")
	}
	paths := make([]string, 0, len(all))
	for p := range all {
		if p != "/stagepost" && !strings.HasPrefix(p, "/stagepost/") {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		rename(p)
	}
	var lines []string
	for i, p := range paths {
		parent := i+1 < len(paths) && strings.HasPrefix(paths[i+1], p+"/")
		if slices.Contains(skeleton, p) || path.Dir(p) == "/jobs/states" || parent && all[p] == "" {
			continue
		}
		data := all[p]
		if strings.HasSuffix(p, "/configuration") || strings.HasSuffix(p, "/submission") {
			data = "..."
		}
		data = timeKey.ReplaceAllString(data, `"last_modified":"now"`)
		data = ownID.ReplaceAllString(strings.ReplaceAll(ownKeys.ReplaceAllString(data, ""), "{,", "{"), "")
		lines = append(lines, strings.TrimSpace(rename(p)+" "+rename(data)))
	}
	slices.Sort(lines)
	return lines
}
