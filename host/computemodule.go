package host

import "github.com/stagepost/stagepost/app/compute/site"

// ComputeModule completes compute: compatibility with another system. The zero Module is none. The program sets it before a server starts.
var ComputeModule site.Module
