// Package host runs a server of modules in this process: it opens the store, the applications, the engine and the API.
// It names no application: [Settings] has the list of modules ([module.Module]).
//
//	start and stop     running.go, addresses.go, shared.go, probe.go, reload.go
//	settings           settings.go, signin.go, mail.go
//	the data directory datadir.go: every entry, and how a backup takes it; space.go, retention.go
//	backups            backuprun.go, backupsource.go, backupschedule.go
//	checks             maintenance.go (fsck, verify, exports), anchors.go, grants.go
//	between stores     migrate.go; package host/stores opens a store of each kind
//	observation        log.go, quiet.go, metrics.go
//
// Package host/cli has the commands of a server. [Maintenance] works on a data directory with or without a server on
// it, [Migration] only without.
package host
