package mail

import (
	"errors"
	"net/textproto"
	"slices"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// refusesReceivers reports whether a server permanently refused receivers of a message.
func refusesReceivers(err error) bool {
	var send *gomail.SendError
	return errors.As(err, &send) && send.Reason == gomail.ErrSMTPRcptTo && send.ErrorCode() >= 500
}

// without asks for each receiver separately and returns the message for those that the server accepts. It returns no
// message, and the error to report, if no receiver of To is left, if one is to be retried later, or if the connection
// breaks. The session is ready for another message afterwards.
func (s *relay) without(session *smtp.Client, m *Message, first error) (*gomail.Msg, error) {
	from, err := address(m.From)
	if err != nil {
		return nil, err
	}
	if err := session.Mail(from.Address); err != nil {
		return nil, err
	}
	left := *m
	for _, list := range []*[]string{&left.To, &left.Cc, &left.Bcc} {
		if *list, err = s.taken(session, m.MessageID, *list); err != nil {
			return nil, err
		}
	}
	if err := session.Reset(); err != nil {
		return nil, err
	}
	if len(left.To) == 0 && len(m.To) > 0 || len(left.To)+len(left.Cc)+len(left.Bcc) == 0 {
		return nil, first
	}
	return left.compose()
}

// taken returns the accepted receivers of a list.
func (s *relay) taken(session *smtp.Client, id string, list []string) ([]string, error) {
	list = slices.Clone(list)
	var broken error
	list = slices.DeleteFunc(list, func(one string) bool {
		a, err := address(one)
		if err == nil && broken == nil {
			err = session.Rcpt(a.Address)
		}
		var reply *textproto.Error
		switch {
		case err == nil:
			return false
		case errors.As(err, &reply) && reply.Code >= 500:
			s.options.Log.Warn("a receiver was refused and left out", "message", id, "receiver", a.Address, "error",
				err)
			return true
		case broken == nil:
			broken = err
		}
		return false
	})
	return list, broken
}
