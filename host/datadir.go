package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/server/token"
)

// answersDir is the directory of answers under idempotency keys.
const answersDir = "answers"

// Omissible are the parts that a backup may leave out.
func (s *Settings) Omissible() []string {
	var all []string
	for _, m := range s.Modules {
		all = append(all, m.Omissible...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// DurableData lists every entry of a data directory, and how a backup takes it. docs/operating.md has the same table; a
// test compares both with what a server makes. Databases are pinned in this order: records first, so that none refers
// to what the inventory does not have.
func (s *Settings) DurableData() []backup.Entry {
	const own = "made anew by the server at its start"
	all := []backup.Entry{
		{Name: "stagepost.db", How: backup.Database, What: "jobs, history, holds, outbox, audit log"},
		{Name: "stagepost.db-*", How: backup.Left, What: "SQLite's log of `stagepost.db`",
			Reason: "the copy of the database contains it"},
		{Name: "store-log", How: backup.Left, What: "commits that `stagepost.db` does not have yet (`store.log`)",
			Reason: "the copy of the database contains them"},
		{Name: "has-data", How: backup.Linked, What: "a mark that the directory has had a database"},
		{Name: "head*", How: backup.Left, What: "what the newest commit is",
			Reason: "a restored directory gets another one"},
		{Name: "stagepost.yaml", How: backup.Linked, What: "the configuration file, if it is kept here"},
		{Name: "tokens", How: backup.Linked, What: "the file of tokens, if it is kept here"},
		{Name: "users", How: backup.Linked, What: "the file of local users, if it is kept here"},
		{Name: authorityDir, How: backup.Linked, What: "the local certificate authority (`ca.dir`): its key, and the " +
			"list of certificates of workers and agents, if it is kept here"},
		{Name: token.UsesName, How: backup.Linked, What: "when each token was used last"},
		{Name: SessionDir, How: backup.Left, What: "sessions of browsers, unless `session.dir` names another directory",
			Reason: "people sign in again; a restore must not bring back a session that was ended"},
		{Name: answersDir, How: backup.Left, What: "answers of the last hour under idempotency keys of operations " +
			"that create no job; those of several servers are in the shared directory",
			Reason: "what they report may not be in the backup"},
		{Name: grantsName, How: backup.Linked, What: "which tokens, users and enrolment tokens the audit log has"},
		{Name: anchorsName, How: backup.Linked, What: "anchors of the histories with their time stamps"},
		{Name: CheckpointsName, How: backup.Late, What: "signed checkpoints of the histories"},
		{Name: signingKeyName + "*", How: backup.Left, What: "the key that signs checkpoints, unless " +
			"`checkpoint.key_file` names another file",
			Reason: "who has a backup must not sign as the server; keep a copy of your own"},
		{Name: "logs", How: backup.Late, What: "logs of jobs"},
		{Name: MailDir, How: backup.Late, What: "mails, unless `mail.smtp` is set"},
		{Name: backup.OutsideName, How: backup.Late, What: "configuration from elsewhere that a restore brought"},
		{Name: "owner", How: backup.Left, What: "which process has the directory", Reason: own},
		{Name: "address*", How: backup.Left, What: "where the server answers", Reason: own},
		{Name: "ballast*", How: backup.Left, What: "space for a start on a full disk", Reason: own},
		{Name: "backups", How: backup.Left, What: "backups, unless `backup.dir` names another directory",
			Reason: "a backup contains no backups"},
		{Name: lastBackupName + "*", How: backup.Left, What: "where the last backup is",
			Reason: "made anew by the next backup"},
		{Name: backup.SnapshotName, How: backup.Left, What: "links to files while a backup is made",
			Reason: "removed at each start"},
		{Name: backup.RestoringName, How: backup.Left, What: "that a restore into the directory has not ended",
			Reason: "removed when it ends"},
	}
	for _, m := range s.Modules {
		all = append(all, m.Data...)
	}
	return all
}

// DataTable is the table of docs/operating.md.
func (s *Settings) DataTable() string {
	how := map[backup.How]string{
		backup.Database: "SQLite's backup interface", backup.Linked: "at the moment of the databases",
		backup.Noted: "at the moment of the databases",
		backup.Late:  "afterwards", backup.Stored: "afterwards, without later versions",
	}
	var b strings.Builder
	b.WriteString("| what | where | in a backup |\n|---|---|---|\n")
	for _, e := range s.DurableData() {
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
