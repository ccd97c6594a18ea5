// Stagepost runs jobs through their lifecycles: a server with its command line in one program.
//
//go:generate go run . docs ../../docs
package main

import (
	"os"
)

// version is set by the linker (-X main.version=...).
var version = "devel"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
