package record

import "github.com/stagepost/stagepost/format/erc"

// Metadata files that depositors may hand in, and those that Stagepost adds.
const (
	ERCName        = "mrt-erc.txt"
	DublinCoreName = "mrt-dc.xml"
	DataCiteName   = "mrt-datacite.xml"
	IngestName     = "mrt-ingest.txt"
	OwnerName      = "mrt-owner.txt"
	MembershipName = "mrt-membership.txt"
	ManifestName   = "mrt-submission-manifest.txt"
	DeleteName     = "mrt-delete.txt"
	EmbargoName    = "mrt-embargo.txt"
	MOMName        = "mrt-mom.txt" // what the object is in Merritt's object model
)

// Known drops the codes that stand for no value, and texts that are too long for a name.
func Known(value string) string {
	if erc.IsCoded(value) || CheckText(value) != nil {
		return ""
	}
	return value
}
