package client

import (
	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Kinds of jobs that have calls of their own.
const (
	ComputeKind = api.ComputeKind
	FlowKind    = api.FlowKind
)

// Streams of a compute job's log.
const (
	Stdout = api.Stdout
	Stderr = api.Stderr
	Both   = api.Both
)

// The wire types of the API, which package api declares.
type (
	Access           = api.Access
	AccessRequest    = api.AccessRequest
	Act              = api.Act
	Adoption         = api.Adoption
	Audit            = job.Audit
	Audits           = api.Audits
	BackedUp         = api.BackedUp
	Backup           = api.Backup
	BatchReport      = api.BatchReport
	Blocker          = job.Blocker
	Bulk             = api.Bulk
	BulkCount        = api.BulkCount
	BulkPreview      = api.BulkPreview
	BulkRefusal      = api.BulkRefusal
	BulkResult       = api.BulkResult
	BulkSample       = api.BulkSample
	BulkStateCount   = api.BulkStateCount
	Bytes            = api.Bytes
	Changes          = api.Changes
	CheckFixity      = api.CheckFixity
	Checkup          = api.Checkup
	Claim            = api.Claim
	Claimed          = api.Claimed
	Clock            = api.Clock
	ComputeAgent     = api.ComputeAgent
	ComputeAgents    = api.ComputeAgents
	ComputeAttempt   = api.ComputeAttempt
	ComputeCommand   = api.ComputeCommand
	ComputeDrain     = api.ComputeDrain
	ComputeEnding    = api.ComputeEnding
	ComputeFile      = api.ComputeFile
	ComputeFiles     = api.ComputeFiles
	ComputeInline    = api.ComputeInline
	ComputeJob       = api.ComputeJob
	ComputeLeftFile  = api.ComputeLeftFile
	ComputeLimits    = api.ComputeLimits
	ComputeOrder     = api.ComputeOrder
	ComputeOutput    = api.ComputeOutput
	ComputeOwner     = api.ComputeOwner
	ComputePage      = api.ComputePage
	ComputePlace     = api.ComputePlace
	ComputeRepeat    = api.ComputeRepeat
	ComputeResults   = api.ComputeResults
	ComputeService   = api.ComputeService
	ComputeServices  = api.ComputeServices
	ComputeUsage     = api.ComputeUsage
	ConfirmClock     = api.ConfirmClock
	Counts           = api.Counts
	Event            = job.Event
	Explanation      = api.Explanation
	FixOrphans       = api.FixOrphans
	FixedOrphans     = api.FixedOrphans
	Fixity           = api.Fixity
	FixityCheck      = api.FixityCheck
	FixityFault      = api.FixityFault
	FixityLocation   = api.FixityLocation
	Flow             = api.Flow
	FlowAtom         = api.FlowAtom
	FlowFailure      = api.FlowFailure
	FlowForm         = api.FlowForm
	FlowLink         = api.FlowLink
	FlowMark         = api.FlowMark
	FlowOrder        = api.FlowOrder
	FlowOutline      = api.FlowOutline
	FlowSent         = api.FlowSent
	FlowSignal       = api.FlowSignal
	FlowSignals      = api.FlowSignals
	Fsck             = api.Fsck
	Handed           = api.Handed
	Health           = api.Health
	History          = api.History
	Hold             = api.Hold
	Holds            = api.Holds
	Hook             = api.Hook
	Hooks            = api.Hooks
	Job              = api.Job
	JobFile          = api.JobFile
	JobFiles         = api.JobFiles
	JobReport        = api.JobReport
	Leased           = api.Leased
	Lifecycle        = api.Lifecycle
	Lifecycles       = api.Lifecycles
	Line             = api.Line
	Location         = api.Location
	Lock             = api.Lock
	Locks            = api.Locks
	Log              = api.Log
	Metadata         = api.Metadata
	Move             = api.Move
	ObjectQuery      = api.ObjectQuery
	Object           = api.Object
	Objects          = api.Objects
	ObjectVersion    = api.ObjectVersion
	Orphan           = api.Orphan
	Orphans          = api.Orphans
	Outbox           = api.Outbox
	Page             = api.Page
	Ping             = api.Ping
	PingHooks        = api.PingHooks
	PingedHooks      = api.PingedHooks
	Priority         = api.Priority
	Problem          = api.Problem
	Profile          = api.Profile
	ProfileChange    = api.ProfileChange
	ProfileStatus    = api.ProfileStatus
	ProfileValue     = api.ProfileValue
	ProfileValues    = api.ProfileValues
	Profiles         = api.Profiles
	Progress         = job.Progress
	Queue            = api.Queue
	QueueBatch       = api.QueueBatch
	QueueBatches     = api.QueueBatches
	QueueHold        = api.QueueHold
	QueueHolds       = api.QueueHolds
	QueueRow         = job.Tally
	QueueTotal       = api.QueueTotal
	ReloadProfiles   = api.ReloadProfiles
	Renewal          = api.Renewal
	Renewed          = api.Renewed
	Replay           = api.Replay
	ReplayHooks      = api.ReplayHooks
	ReplayedHooks    = api.ReplayedHooks
	Report           = api.Report
	Reported         = api.Reported
	Reports          = api.Reports
	Results          = api.Results
	Seconds          = api.Seconds
	Seen             = api.Seen
	StorageLocation  = api.StorageLocation
	StorageLocations = api.StorageLocations
	Stuck            = api.Stuck
	StuckJob         = api.StuckJob
	StuckReason      = api.StuckReason
	Submission       = api.Submission
	Tasks            = api.Tasks
	Verify           = api.Verify
)
