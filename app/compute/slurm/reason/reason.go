// Package reason explains why Slurm lets a job wait.
package reason

import "strings"

// reasons states in plain words why Slurm lets a job wait (squeue(1), "JOB REASON CODES").
var reasons = map[string]string{
	"None":                     "Slurm has not considered it yet",
	"Resources":                "the processors or the memory that it needs are in use",
	"Priority":                 "jobs of higher priority come first",
	"Dependency":               "a job that it depends on has not ended",
	"DependencyNeverSatisfied": "a job that it depends on ended otherwise than it needs: it will never start",
	"BeginTime":                "its earliest time of start has not come",
	"JobHeldUser":              "its user holds it (scontrol release starts it)",
	"JobHeldAdmin":             "an administrator of the cluster holds it",
	"JobHoldMaxRequeue":        "it was queued again too often and is held",
	"JobArrayTaskLimit":        "enough tasks of its array run",
	"Licenses":                 "it waits for a licence",
	"PartitionDown":            "its partition is down",
	"PartitionInactive":        "its partition starts no jobs",
	"PartitionNodeLimit": "it asks for more nodes than its partition allows, or the nodes are down: it " +
		"will not start as it is",
	"PartitionTimeLimit":              "it asks for more time than its partition allows: it will not start as it is",
	"PartitionConfig":                 "it asks for what its partition does not have: it will not start as it is",
	"AccountNotAllowed":               "its account may not use its partition",
	"QOSNotAllowed":                   "its QOS may not be used there",
	"InvalidAccount":                  "its account is not valid",
	"InvalidQOS":                      "its QOS is not valid",
	"AssociationJobLimit":             "its account has as many jobs as it may",
	"AssociationResourceLimit":        "its account uses as much as it may",
	"AssociationTimeLimit":            "its account has used up its time",
	"BadConstraints":                  "no nodes are as it asks for them: it will not start as it is",
	"ReqNodeNotAvail":                 "nodes that it needs are down, drained or reserved",
	"Reservation":                     "its reservation has not begun",
	"ReservationDeleted":              "its reservation was deleted",
	"Prolog":                          "the prolog is running on its node",
	"Cleaning":                        "its earlier run is being cleared up",
	"NodeDown":                        "a node that it needs is down",
	"NodeFailure":                     "its node failed",
	"Nodes required for job are DOWN": "the nodes that it needs are down, drained or kept for others",
	"FrontEndDown":                    "no front end can run it",
	"BurstBufferResources":            "the burst buffer has no space",
	"BurstBufferStageIn":              "its burst buffer is being filled",
	"BurstBufferOperation":            "the burst buffer failed",
	"DeadLine":                        "it cannot end before its deadline any more",
	"InactiveLimit":                   "it reached the limit of inactivity",
	"SystemFailure":                   "Slurm, its file system or its network failed",
	"JobLaunchFailure":                "it could not be started: the program, the directory or the node is at fault",
	"NonZeroExitCode":                 "it ended with another code than 0",
	"OutOfMemory":                     "it used more memory than it may",
	"TimeLimit":                       "it reached its time limit",
	"MaxRequeue":                      "it was queued again too often",
	"MaxMemPerLimit":                  "it asks for more memory for each processor or node than is allowed",
	"FedJobLock":                      "another cluster of the federation considers it",
	"RESERVED":                        "its nodes are reserved",
	"WaitingForScheduling":            "Slurm has not decided yet",
	"SchedDefer":                      "Slurm puts off starting jobs at once when they come in",
}

// limits are the families of limits: their names are a family, what is limited, and the ending (AssocGrpCpuLimit,
// QOSMaxJobsPerUserLimit).
var limits = []struct{ begin, sentence string }{
	{"QOSMaxJobsPerUser", "its user runs as many jobs as the QOS allows"},
	{"QOSMaxJobsPerAccount", "its account runs as many jobs as the QOS allows"},
	{"QOSGrpJobs", "as many jobs of its QOS run as are allowed"},
	{"QOSMaxSubmit", "its user has handed in as many jobs as the QOS allows"},
	{"QOSGrp", "all jobs of its QOS together use as much as is allowed"},
	{"QOSMax", "it or its user asks for more than its QOS allows"},
	{"QOSMin", "it asks for less than its QOS is meant for"},
	{"QOSTime", "its time limit is longer than its QOS allows"},
	{"QOSUsageThreshold", "its user's share of the QOS is used up"},
	{"QOSJob", "as many jobs of its QOS run as are allowed"},
	{"QOSResource", "its QOS uses as much as it may"},
	{"AssocMaxJobs", "its account runs as many jobs as it may"},
	{"AssocGrpJobs", "its account and those below it run as many jobs as they may"},
	{"AssocMaxSubmit", "its account has handed in as many jobs as it may"},
	{"AssocGrp", "its account and those below it use as much as they may"},
	{"AssocMax", "it asks for more than its account allows"},
}

// Sentence puts a reason of Slurm into words, with Slurm's own word after it for reference; a reason that is not known
// here is shown as it is.
func Sentence(reason string) string {
	if reason == "" || reason == "N/A" {
		return "Slurm gives no reason"
	}
	plain, ok := reasons[reason]
	if word, rest, found := strings.Cut(reason, ","); !ok && found { // "ReqNodeNotAvail, UnavailableNodes:n1"
		if plain, ok = reasons[strings.TrimSpace(word)]; ok && strings.TrimSpace(rest) != "" {
			return plain + " (Slurm: " + reason + ")"
		}
	}
	for i := 0; !ok && i < len(limits); i++ {
		if strings.HasPrefix(reason, limits[i].begin) {
			plain, ok = limits[i].sentence, true
		}
	}
	if !ok {
		return "Slurm: " + reason
	}
	return plain + " (Slurm: " + reason + ")"
}
