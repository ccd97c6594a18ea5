package access

import "github.com/stagepost/stagepost/format/pack"

// The formats of packages.
const (
	FormatZIP    = "zip"
	FormatTAR    = "tar"
	FormatBagZIP = "bag-zip"
	FormatBagTAR = "bag-tar"
)

// format is what a format of packages is made of.
type format struct {
	pack   pack.Format
	bag    bool
	ending string
	media  string
}

var formats = map[string]format{
	FormatZIP:    {pack.ZIP, false, ".zip", "application/zip"},
	FormatTAR:    {pack.TAR, false, ".tar", "application/x-tar"},
	FormatBagZIP: {pack.ZIP, true, ".zip", "application/zip"},
	FormatBagTAR: {pack.TAR, true, ".tar", "application/x-tar"},
}
