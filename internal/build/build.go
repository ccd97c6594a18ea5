// Package build reports which build of the program runs.
package build

import "runtime/debug"

// version is set by the linker: -X github.com/stagepost/stagepost/internal/build.version=v1.2.3.
var version string

// Version gives the version that the linker was given, else the one of the module, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
