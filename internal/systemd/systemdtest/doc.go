// Package systemdtest is a service manager for tests of programs that notify one.
package systemdtest
