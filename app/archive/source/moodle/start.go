package moodle

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle/page"
)

// startWait is how long a start is waited for. A Moodle that makes backups in the background answers at once; another
// one answers when the backup is done, which can take an hour.
const startWait = 15 * time.Second

// start is a start of a backup that was sent. Its answer may come long after the call that sent it has returned.
type start struct {
	id   string
	done chan struct{} // closed when the answer is there, or lost
	page *webPage
	err  error
}

func (s *start) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// lock takes the session of the account.
func (s *Source) lock(ctx context.Context) error {
	select {
	case s.browser <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Source) unlock() { <-s.browser }

// send posts the form that starts a backup. Without an answer within startWait it returns nil, and the request goes on:
// neither the job nor its slot waits for it. The caller holds the lock.
func (s *Source) send(ctx context.Context, id string, form url.Values) (*webPage, error) {
	own, sent := s.session, &start{id: id, done: make(chan struct{})}
	s.sentMu.Lock()
	s.sent = sent
	s.sentMu.Unlock()
	go func() {
		defer close(sent.done)
		// The end of a job or of its claim does not end the backup in the Moodle.
		sent.page, sent.err = own.page(context.WithoutCancel(ctx), backupPath, form)
		if sent.err == nil && !sent.page.loggedOut() {
			sent.err = refused(sent.page)
		}
	}()
	wait := time.NewTimer(s.startWait)
	defer wait.Stop()
	select {
	case <-sent.done:
		_, err := s.answered(id)
		return sent.page, err
	case <-wait.C:
	case <-ctx.Done():
	}
	s.session = nil // a Moodle answers one request of a session at a time: others log in anew
	return nil, ctx.Err()
}

// refused is the error of a page that shows the form again.
func refused(p *webPage) error {
	if page.FormWith(p.doc, "backup") == nil {
		return nil
	}
	return &source.Error{Op: backupPath, Transient: true, Err: errors.New("the Moodle did not accept the form")}
}

// starting reports whether the answer to a start is awaited.
func (s *Source) starting() bool {
	s.sentMu.Lock()
	defer s.sentMu.Unlock()
	return s.sent != nil && !s.sent.ended()
}

// answered reports whether the start of a backup was sent by this process and its answer is awaited. If it came, it is
// forgotten; err is its failure.
func (s *Source) answered(id string) (awaited bool, err error) {
	s.sentMu.Lock()
	defer s.sentMu.Unlock()
	switch {
	case s.sent == nil || s.sent.id != id:
		return false, nil
	case !s.sent.ended():
		return true, nil
	}
	err, s.sent = s.sent.err, nil
	return false, err
}
