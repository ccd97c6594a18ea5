// Package cli is the kernel of the command line: the tree of commands, settings, the connection to a server, output,
// exit codes and completion. It has no command of its own.
//
// A [Call] is one call of the program. Its commands come from parts ([Part]): package cli/jobs has those for jobs of
// every kind, package host/cli those of a server, and each application those of its jobs. A part also answers what the
// kernel asks: what a short id means, with which code an error exits, where the log of a job is.
//
//	flags, variables, stagepost.yaml -> Common -> Call -> command -> client -> Printer -> exit code
//
// A [Printer] prints tables on a terminal, plain lines in a pipe, and JSON if asked. On a terminal it escapes control
// characters of everything that came from outside.
package cli
