package authority

import (
	"encoding/pem"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/ratelimit"
)

// Limits of attempts to enrol from one address: so many at once, and then one in a while.
const (
	attempts     = 30
	attemptEvery = 6 * time.Second
)

const noReason = "workers and agents act there, not people"

// routes has the handlers.
type routes struct {
	*server.Server
	authority *Authority // nil: there is none
	from      *ratelimit.Limit
}

// Part gives the routes of an authority. A nil authority is enough to list them; they then refuse every request.
func Part(sv *server.Server, a *Authority) server.Part {
	s := &routes{Server: sv, authority: a}
	if a != nil {
		s.from = ratelimit.New(attemptEvery, attempts, a.o.Now)
	}
	return server.Part{Routes: []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/enrolment", Who: server.Anyone,
			Doc: "Exchanges an enrolment token, which is valid once, for a certificate: token, " +
				"request (PKCS #10).",
			Handle: s.enrol, NoReason: noReason, IO: openapi.IO{In: api.Enrolment{}, Out: api.Certificate{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/enrolment/renewal", Who: server.Worker,
			Doc:    "Issues another certificate to the member of the connection's certificate: request (PKCS #10).",
			Handle: s.renewal, NoReason: noReason,
			IO: openapi.IO{In: api.CertificateRequest{}, Out: api.Certificate{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/admin/members", Who: server.Admin,
			Doc:    "The certificates of workers and agents, and the enrolment tokens that were not used.",
			Handle: s.list, IO: openapi.IO{Out: api.Members{}}},
	}}
}

var errAbsent = problem.Absent("enrolment", "this server has no authority for certificates", "setting ca.dir")

func (s *routes) enrol(w http.ResponseWriter, r *http.Request) error {
	b, err := server.Body[api.Enrolment](r, true)
	if err != nil {
		return err
	}
	if s.authority == nil {
		return errAbsent
	}
	if wait, ok := s.from.Allow(s.Party(r)); !ok {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second))))
		return problem.Refuse(http.StatusTooManyRequests, job.Unavailable, "there were too many attempts: wait and "+
			"try again")
	}
	if r.TLS == nil {
		return job.Errorf(job.Refused, "enrolment", "", "a certificate is issued over TLS only, without a proxy "+
			"that ends it")
	}
	public, err := publicKey(b.Request)
	if err != nil {
		return job.Errorf(job.Invalid, "enrolment", "", "%w", err)
	}
	der, c, err := s.authority.exchange(b.Token, public)
	if err != nil {
		if !errors.Is(err, ErrEnrolment) {
			return err
		}
		if err := s.note(r, "enrol-failed", "unknown", "certificate", err.Error()); err != nil {
			return err
		}
		return problem.Refuse(http.StatusForbidden, job.Refused, "%w", err)
	}
	return s.issued(w, r, "enrol", der, &c)
}

func (s *routes) renewal(w http.ResponseWriter, r *http.Request) error {
	b, err := server.Body[api.CertificateRequest](r, true)
	if err != nil {
		return err
	}
	if s.authority == nil {
		return errAbsent
	}
	who, ok := server.Who(r.Context())
	if !ok || who.Way != identity.ByCertificate {
		return job.Errorf(job.Refused, "enrolment", "", "only a connection with a certificate gets another one")
	}
	public, err := publicKey(b.Request)
	if err != nil {
		return job.Errorf(job.Invalid, "enrolment", "", "%w", err)
	}
	der, c, err := s.authority.renew(who.Key, public)
	if err != nil {
		return err
	}
	return s.issued(w, r, "renew-certificate", der, &c)
}

// issued enters a certificate in the audit log and answers with it.
func (s *routes) issued(w http.ResponseWriter, r *http.Request, event string, der []byte, c *Certificate) error {
	if err := s.note(r, event, c.Name, "certificate "+c.Fingerprint[:16], "until "+
		c.Expires.UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	return server.Reply(w, api.Certificate{Name: c.Name, Expires: c.Expires.UTC(),
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: der})),
		Authority:   string(encode(s.authority.cert))})
}

func (s *routes) note(r *http.Request, event, actor, object, why string) error {
	return s.Engine.Operator().Audit(r.Context(), operator.Entry{Actor: actor, Event: lifecycle.Event(event),
		Object: object, Note: why})
}

func (s *routes) list(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if s.authority == nil {
		return errAbsent
	}
	l, err := s.authority.members.Latest()
	if err != nil {
		return err
	}
	return server.Reply(w, l.members(s.authority.o.Now()))
}
