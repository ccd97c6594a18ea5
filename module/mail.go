package module

import "github.com/stagepost/stagepost/edge/mail"

// Mail is how the applications of a server send mail.
type Mail struct {
	// Sender delivers over the mail server of the settings; without one it writes files into the data directory.
	Sender mail.Sender
	From   string // sender of the mails, such as "stagepost@example.org"
	Host   string // the part of Message-IDs after the @; it is the same for all mails of a server
	Link   string // URL under which people reach the server, without a final slash; empty: mails have no links
}
