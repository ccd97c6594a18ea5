// Package ingestserve opens ingest in a server.
package ingestserve

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
)

// Settings are those of ingest and of packages.
type Settings struct {
	Profiles      string        `name:"ingest.profiles" for:"serve" doc:"directory of ingest profiles (YAML); defaults to profiles in the data directory"`
	Keep          time.Duration `name:"ingest.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long ended batches and jobs are kept; unlimited: they are never deleted"`
	Trash         time.Duration `name:"ingest.trash.keep" for:"serve" zero:"off" default:"7d" doc:"how long working files stay in the trash before they are deleted; off: they are removed at once"`
	Work          time.Duration `name:"ingest.work.keep" for:"serve" zero:"unlimited" default:"30d" doc:"how long the working files of failed jobs stay before they go to the trash; unlimited: they stay"`
	Merritt       string        `name:"ingest.merritt" for:"serve" choices:"on off" default:"off" doc:"on: share the queue of a Merritt system, whose nodes are in the ZooKeeper of the setting store; off: its nodes are neither read nor written"`
	MerrittQueue  string        `name:"ingest.merritt.queue" for:"serve" doc:"directory in which the Merritt system keeps payloads and working files; without it, batches that Merritt's programs created are followed and not worked on"`
	MerrittFiles  string        `name:"ingest.merritt.files" for:"serve" doc:"URL of the directory work of the data directory, as a web server gives it to Merritt's storage: that can store what this server has processed; needs ingest.merritt.storage and ingest.merritt.node"`
	MerrittStore  string        `name:"ingest.merritt.storage" for:"serve" doc:"URL of Merritt's storage service, below which inventory reads the manifest of a stored object"`
	MerrittNode   int           `name:"ingest.merritt.node" for:"serve" doc:"number of the storage node of Merritt for objects of ingest.merritt.files"`
	MerrittEvery  time.Duration `name:"ingest.merritt.every" for:"serve" default:"15s" doc:"time between readings of Merritt's nodes that no change announced"`
	Reserve       int64         `name:"ingest.reserve" for:"serve" zero:"off" unit:"bytes" default:"512MiB" doc:"bytes of the disk that uploads and jobs of ingest leave free; off: none"`
	FixityEvery   time.Duration `name:"fixity.every" for:"serve" zero:"off" default:"90d" doc:"time after which a stored file is read again and compared with its digest; off: only by stagepost fixity run"`
	AccessSmall   int64         `name:"access.small.bytes" for:"serve" unit:"bytes" default:"500MB" doc:"content of a package above which it goes to the queue of large ones"`
	AccessWorkers int           `name:"access.small.workers" for:"serve" default:"4" doc:"small packages that are made at once"`
	AccessLarge   int           `name:"access.large.workers" for:"serve" default:"1" doc:"large packages that are made at once"`
	AccessFiles   int           `name:"access.max.files" for:"serve" default:"1000000" doc:"files of one package"`
	AccessBytes   int64         `name:"access.max.bytes" for:"serve" zero:"unlimited" unit:"bytes" default:"unlimited" doc:"content of one package; unlimited: any"`
	AccessKeep    time.Duration `name:"access.keep" for:"serve" zero:"unlimited" default:"7d" doc:"how long packages can be fetched, and failures are kept; unlimited: they are never deleted"`
}

// ProfileDir is where the profiles of a data directory are.
func (s *Settings) ProfileDir(data string) string {
	return cmp.Or(s.Profiles, filepath.Join(data, "profiles"))
}

// OpenProfiles reads the profiles of a server, which must be valid.
func (s *Settings) OpenProfiles(data string) (*profile.Live, error) {
	return profile.Open(s.ProfileDir(data), time.Now)
}
