// Package docs holds what is generated from the program: the list of all lifecycles, and lifecycles.md made from it.
package docs

import (
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/quizworker"
	"github.com/stagepost/stagepost/app/archive/trigger"
	"github.com/stagepost/stagepost/app/bulk"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// All lists every lifecycle of the program, in the order of the document.
func All() []*lifecycle.Table {
	return []*lifecycle.Table{
		record.BatchLife, record.JobLife, record.AccessLife,
		archive.JobLife, archive.TaskLife, trigger.RunLife, pdf.Life, quizworker.Life,
		flow.Life, flow.TaskLife, flow.RetryLife,
		compute.JobLife, compute.PayloadLife,
		bulk.Life,
	}
}
