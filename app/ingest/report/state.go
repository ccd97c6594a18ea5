package report

import (
	"github.com/stagepost/stagepost/lifecycle"
)

// The states of batches and jobs, as the tables of app/ingest call them and as the files of reports have them. A test
// holds them against the tables.
const (
	statePending         lifecycle.State = "Pending"
	stateHeld            lifecycle.State = "Held"
	stateEstimating      lifecycle.State = "Estimating"
	stateProvisioning    lifecycle.State = "Provisioning"
	stateDownloading     lifecycle.State = "Downloading"
	stateProcessing      lifecycle.State = "Processing"
	stateStoring         lifecycle.State = "Storing"
	stateRecording       lifecycle.State = "Recording"
	stateNotify          lifecycle.State = "Notify"
	stateReporting       lifecycle.State = "Reporting"
	stateUpdateReporting lifecycle.State = "UpdateReporting"
	stateCompleted       lifecycle.State = "Completed"
	stateFailed          lifecycle.State = "Failed"
	stateDeleted         lifecycle.State = "Deleted"
)
