// Package flowserve opens flows in a server.
package flowserve

import "time"

// Settings are those of flows.
type Settings struct {
	Workers  int           `name:"flow.workers" for:"serve" default:"8" doc:"tasks of flows that run at once"`
	Slots    int           `name:"flow.slots" for:"serve" default:"64" doc:"flows that are at work at once; those that only wait do not count"`
	Keep     time.Duration `name:"flow.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long ended flows are kept before they are deleted with their values, such as 30d; unlimited: they are never deleted"`
	Commands bool          `name:"flow.commands" for:"serve" default:"false" doc:"flow files may run commands, confined as flow.sandbox states. Without tokens there is no login: every user of this machine can then run them"`
	Sandbox  string        `name:"flow.sandbox" for:"serve" choices:"auto native bwrap none require off" default:"auto" doc:"what confines the commands of flows: auto takes the best that works, require the same but never none; off: they run as the user of the server and see what it sees"`
	Dirs     string        `name:"flow.dirs" for:"serve" list:"," doc:"directories, with commas between them, in or below which a flow file may have a confined command run (dir) and write; defaults to none: each has an empty one of its own"`
	HTTP     bool          `name:"flow.http" for:"serve" default:"false" doc:"flow files may send HTTP requests to public addresses, from this machine"`
}
