package openapi

import "fmt"

// Query returns parameters that several operations share, by their names. It panics if there is none with a name.
func Query(names ...string) (all []Parameter) {
	for _, name := range names {
		p, ok := shared[name]
		if !ok {
			panic(fmt.Sprintf("there is no shared parameter %q", name))
		}
		p.Name = name
		all = append(all, p)
	}
	return all
}

// Single returns such parameters, each of which is given once.
func Single(names ...string) []Parameter {
	all := Query(names...)
	for i := range all {
		all[i].Many = false
	}
	return all
}

// Filters are the filters of lists of jobs, and more of one list.
func Filters(more ...string) []Parameter {
	return Query(append(more, "kind", "state", "outcome", "cause", "group", "owner", "key", "worker", "tag", "words",
		"ended", "order", "after", "limit")...)
}

var shared = map[string]Parameter{
	"actor":       {Doc: "The person, for the audit log."},
	"address":     {Doc: "The network address of the sender, in any notation, or a prefix such as 192.0.2.0/24."},
	"after":       {Doc: "The cursor next of the page before; of histories and streams, the number of the last entry."},
	"agent":       {Doc: "Name of the agent."},
	"all":         {Type: "boolean", Doc: "Includes batches that ended well."},
	"application": {Doc: "Only the objects of this application."},
	"ark":         {Doc: "ARK of the object."},
	"as":          {Values: []string{"operator", "owner"}, Default: "operator", Doc: "The role of the person."},
	"at":          {Format: "date-time", Doc: "The time that the question concerns; missing: now."},
	"brief":       {Type: "boolean", Doc: "Leaves out specs and data."},
	"before":      {Type: "integer", Doc: "The cursor next of the page before."},
	"cause":       {Many: true, Doc: "Cause of the last failure or wait."},
	"damaged":     {Type: "boolean", Doc: "Only objects with damaged copies."},
	"digest":      {Doc: "SHA-256 or SHA-512 of one of the files, in hex."},
	"dry":         {Type: "boolean", Doc: "Answers with a preview and changes nothing."},
	"ended":       {Type: "boolean", Doc: "Only jobs that have ended, or only those that have not."},
	"entry":       {Type: "integer", Doc: "Number of an entry of the history; missing: the last."},
	"event":       {Doc: "Name of the event."},
	"factor":      {Type: "number", Default: "1", Doc: "How many times the usual duration counts as too long."},
	"follow":      {Type: "boolean", Doc: "Streams until the job has ended."},
	"format":      {Doc: "Form of the answer; missing: as the header Accept asks."},
	"from":        {Values: []string{"results", "inputs"}, Doc: "Which file is meant if both have one with the name."},
	"group":       {Doc: "Group of the jobs: their collection or queue."},
	"job":         {Doc: "Id of a job."},
	"key":         {Doc: "Idempotency key of the job."},
	"kind":        {Many: true, Doc: "Kind of the jobs; of locks, their kind."},
	"label":       {Many: true, Doc: "Label as name=value, or a name that must be there."},
	"last":        {Type: "integer", Default: "50", Unit: "entries", Doc: "Only the newest."},
	"limit":       {Type: "integer", Unit: "entries", Doc: "Largest size of the page."},
	"local_id":    {Doc: "Local id of the object."},
	"location":    {Doc: "Storage location."},
	"name":        {Doc: "Name."},
	"note":        {Doc: "The reason, for the audit log."},
	"number":      {Type: "integer", Doc: "Number of the job."},
	"offset":      {Type: "integer", Unit: "bytes", Default: "0", Doc: "Where to begin."},
	"order":       {Values: []string{"newest", "oldest"}, Default: "newest", Doc: "Order of the list."},
	"outcome":     {Many: true, Doc: "Outcome of the jobs."},
	"overdue":     {Type: "boolean", Doc: "Only objects with copies whose check is due."},
	"owner":       {Doc: "Owner of the jobs."},
	"parent":      {Doc: "Id of the batch."},
	"refresh":     {Values: []string{"off", "again"}, Doc: "Off: the page does not update itself; again: it has."},
	"service":     {Many: true, Doc: "Name of the service."},
	"state":       {Many: true, Doc: "State of the jobs."},
	"status":      {Values: []string{"pending", "delivered", "abandoned"}, Doc: "Status of the messages."},
	"stream":      {Values: []string{"stdout", "stderr", "both"}, Doc: "Which output."},
	"tag":         {Doc: "Tag as name=value."},
	"text":        {Doc: "Text that the lines contain."},
	"topic":       {Doc: "Topic of the messages."},
	"values":      {Type: "boolean", Doc: "Includes the values of the tasks, large ones cut."},
	"version":     {Type: "integer", Doc: "Version of the record that was seen; missing: any."},
	"who":         {Doc: "The person, for the audit log."},
	"why":         {Doc: "The reason, for the audit log."},
	"worker":      {Doc: "Name of the worker that holds the claim."},

	"words": {Doc: "Words of the title, the creator, an identifier or the name of a file of the jobs: each must " +
		"occur, the last one as the beginning of a word. Case and accents do not matter. A page may end early, " +
		"with next."},

	"everything": {Type: "boolean", Doc: "Must be true for the empty scope."},

	"tail": {Type: "integer", Unit: "lines", Doc: "How many of the last lines, instead of those from offset on."},

	"name_prefix": {Doc: "Beginning of the name."},
	"tag_key":     {Many: true, Doc: "Name of a tag."},
	"tag_value":   {Many: true, Doc: "Value of the tag at the same position."},
	"view":        {Values: []string{"MINIMAL", "BASIC", "FULL"}, Default: "MINIMAL", Doc: "Which fields of a task."},
	"page_size":   {Type: "integer", Unit: "tasks", Doc: "Largest size of the page."},
	"page_token":  {Doc: "The token of the page before."},
}
