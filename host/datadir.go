package host

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/app/backup"
)

// Parts are what a backup may leave out.
var Parts = []string{"compute", "storage"}

// DurableData lists every entry of a data directory, and how a backup takes it. docs/operating.md has the same table; a test compares both with what
// a server makes. Databases are pinned in this order: records first, so that none refers to what the inventory does not have.
func DurableData() []backup.Entry {
	const own = "made anew by the server at its start"
	return []backup.Entry{
		{Name: "stagepost.db", How: backup.Database, What: "jobs, history, holds, outbox, audit list"},
		{Name: "inventory.db", How: backup.Database, What: "what is stored where, identifiers"},
		{Name: "stagepost.db-*", How: backup.Left, What: "SQLite's log of `stagepost.db`", Reason: "the copy of the database contains it"},
		{Name: "inventory.db-*", How: backup.Left, What: "SQLite's log of `inventory.db`", Reason: "the copy of the database contains it"},
		{Name: "has-data", How: backup.Linked, What: "that there has been a database"},
		{Name: "head*", How: backup.Left, What: "what the newest commit is", Reason: "a restored directory gets another one"},
		{Name: "inventory.head*", How: backup.Left, What: "how far the inventory came", Reason: "a restored directory gets another one"},
		{Name: "inventory.db.before-*", How: backup.Left, What: "inventories before they were rebuilt", Reason: "the inventory is newer"},
		{Name: "inventory-rebuilt*", How: backup.Left, What: "an inventory while it is rebuilt", Reason: "removed by the next `stagepost inventory rebuild`"},
		{Name: "stagepost.yaml", How: backup.Linked, What: "the configuration file, if it is kept here"},
		{Name: "tokens", How: backup.Linked, What: "the file of tokens, if it is kept here"},
		{Name: "work", How: backup.Linked, What: "payloads as handed in, working files, reports"},
		{Name: "access", How: backup.Linked, What: "plans of packages that can be fetched, and the key of their tokens"},
		{Name: "flows", How: backup.Linked, What: "large values of flows"},
		{Name: "profiles", How: backup.Linked, What: "ingest profiles, unless `ingest.profiles` names another directory"},
		{Name: "lifecycles", How: backup.Linked, What: "lifecycles that `stagepost lifecycle add` brought"},
		{Name: "lifecycle-runs", How: backup.Left, What: "working directories of lifecycles' commands", Reason: "emptied at each start"},
		{Name: "compute", How: backup.Linked, Part: "compute", What: "inputs and results of compute jobs"},
		{Name: "agent", How: backup.Linked, Part: "compute", What: "payloads of the agent in the server"},
		{Name: "uploads", How: backup.Linked, Part: "compute", What: "resumable uploads"},
		{Name: "site", How: backup.Linked, What: "the depositor's web site of `stagepost demo`"},
		{Name: "demo.json", How: backup.Linked, What: "the address of that site"},
		{Name: "given-back.zip", How: backup.Linked, What: "the package that `stagepost demo` fetched"},
		{Name: "logs", How: backup.Late, What: "logs of jobs"},
		{Name: "mail", How: backup.Late, What: "mails, unless `mail.smtp` is set"},
		{Name: backup.OutsideName, How: backup.Late, What: "configuration from elsewhere that a restore brought"},
		{Name: "storage", How: backup.Stored, Part: "storage", What: "stored objects (OCFL), unless a profile names other storage locations"},
		{Name: "owner", How: backup.Left, What: "which process has the directory", Reason: own},
		{Name: "address*", How: backup.Left, What: "where the server answers", Reason: own},
		{Name: computeAddress + "*", How: backup.Left, What: "where users of job-orchestrator find the server", Reason: own},
		{Name: "commands", How: backup.Left, What: "working directories of flows' commands", Reason: "emptied at each start"},
		{Name: "tes", How: backup.Left, What: "inputs of TES tasks, of older versions", Reason: "removed at each start"},
		{Name: "ballast*", How: backup.Left, What: "space for a start on a full disk", Reason: own},
		{Name: "trash", How: backup.Left, What: "what was thrown away, for a while", Reason: "nothing refers to it"},
		{Name: "backups", How: backup.Left, What: "backups, unless `backup.dir` names another directory", Reason: "a backup contains no backups"},
		{Name: lastBackupName + "*", How: backup.Left, What: "where the last backup is", Reason: "made anew by the next backup"},
		{Name: backup.SnapshotName, How: backup.Left, What: "links to files while a backup is made", Reason: "removed at each start"},
		{Name: backup.RestoringName, How: backup.Left, What: "that a restore into the directory has not ended", Reason: "removed when it ends"},
	}
}

// DataTable is the table of docs/operating.md.
func DataTable() string {
	how := map[backup.How]string{
		backup.Database: "SQLite's backup interface", backup.Linked: "at the moment of the databases", backup.Noted: "at the moment of the databases",
		backup.Late: "afterwards", backup.Stored: "afterwards, without later versions",
	}
	var b strings.Builder
	b.WriteString("| what | where | in a backup |\n|---|---|---|\n")
	for _, e := range DurableData() {
		in := how[e.How]
		switch {
		case e.How == backup.Left:
			in = "no: " + e.Reason
		case e.Part != "":
			in += fmt.Sprintf("; not with `--without %s`", e.Part)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", e.What, e.Name, in)
	}
	return b.String()
}
