package layout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// FormatInt and ParseInt write and read the data of a node that is a number, such as a priority.
func FormatInt(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// ParseInt reads a number with blanks around it.
func ParseInt(data []byte) (int64, error) {
	n, ok := parseInt(strings.TrimSpace(string(data)))
	if !ok {
		return 0, fmt.Errorf("not a number: %.40q", data)
	}
	return n, nil
}

// Space returns the working space in bytes that a space_needed node asks for. Ingest writes -1 when a size is unknown:
// any negative number, and a node without a number, is 0, unknown.
func Space(data []byte) int64 {
	n, err := ParseInt(data)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// ParseID reads the id that a node holds, such as the batch of a job.
func ParseID[T interface {
	~string
	Valid() bool
}](data []byte) (T, error) {
	id := T(strings.TrimSpace(string(data)))
	if !id.Valid() {
		return "", fmt.Errorf("not an id: %.40q", data)
	}
	return id, nil
}

// Keys of a submission and of the configuration of a job that Stagepost reads or that consumers require.
const (
	KeyBatchID        = "batchID"
	KeyJobID          = "jobID" // name of the working directory, not of the node
	KeyProfile        = "profile"
	KeyType           = "type"
	KeySize           = "size"
	KeyFilename       = "filename"
	KeyUpdate         = "update"
	KeySubmitter      = "submitter"
	KeySubmissionDate = "submissionDate"
	KeyNotification   = "notificationFormat"
	KeyTitle          = "title"
	KeyCreator        = "creator"
	KeyDate           = "date"
	KeyObjectID       = "objectID"
	KeyLocalID        = "localID"
)

// CheckSubmission returns why other programs cannot read the submission of a batch, or nil.
func CheckSubmission(o Object) error {
	for _, key := range []string{KeyProfile, KeyType, KeyFilename, KeySubmitter, KeySubmissionDate} {
		if o.Text(key) == "" {
			return fmt.Errorf("the submission has no %s", key)
		}
	}
	return checkUpdate(o)
}

// CheckConfiguration returns why other programs cannot read the configuration of a job, or nil.
func CheckConfiguration(o Object) error {
	if o.Text(KeyProfile) == "" {
		return errors.New("the configuration has no profile")
	}
	return checkUpdate(o)
}

// checkUpdate requires the truth value that consumers read without a default.
func checkUpdate(o Object) error {
	if raw := string(o[KeyUpdate]); raw != "true" && raw != "false" {
		return fmt.Errorf("%s must be true or false", KeyUpdate)
	}
	return nil
}

// The keys of the nodes below.
const (
	keyPrimary     = "primary_id"
	keyLocal       = "local_id"
	keyManifestURL = "manifest_url"
	keyMode        = "mode"
	keyDelete      = "delete"
)

// Identifiers are the ids of the object of a job. The node is always written: an ingest daemon fails without it.
type Identifiers struct {
	Primary string
	Local   []string
	Other   Object
}

// ParseIdentifiers reads the node; no data are no identifiers. A local id alone may be a text.
func ParseIdentifiers(data []byte) (i Identifiers, err error) {
	o, err := ParseObject(data)
	if errors.Is(err, errEmpty) {
		return i, nil
	}
	if err != nil {
		return i, err
	}
	return Identifiers{o.Text(keyPrimary), o.Texts(keyLocal), o}, nil
}

// Encode returns the data of the node.
func (i *Identifiers) Encode() []byte {
	o := i.Other.Clone()
	o.Set(keyPrimary, i.Primary)
	o.Set(keyLocal, append([]string{}, i.Local...))
	return o.Encode()
}

// Stored is the data of the nodes store and inventory of a job.
type Stored struct {
	ManifestURL string
	Mode        string // store: "add/<node>/<ark>" or "update/<node>/<ark>"; inventory: ""
	Delete      string // store: lines of file names
	Other       Object
}

// ParseStored reads the node store or inventory.
func ParseStored(data []byte) (s Stored, err error) {
	o, err := ParseObject(data)
	if err != nil {
		return s, err
	}
	return Stored{o.Text(keyManifestURL), o.Text(keyMode), o.Text(keyDelete), o}, nil
}

// EncodeStore returns the data of the node store.
func (s *Stored) EncodeStore() []byte {
	o := s.inventory()
	o.Set(keyDelete, s.Delete)
	return o.Encode()
}

// EncodeInventory returns the data of the node inventory.
func (s *Stored) EncodeInventory() []byte { return s.inventory().Encode() }

func (s *Stored) inventory() Object {
	o := s.Other.Clone()
	o.Set(keyManifestURL, s.ManifestURL)
	o.Set(keyMode, s.Mode)
	return o
}

// Metadata is the data of the node metadata of a job: who, what and when of the object.
type Metadata struct {
	Who, What, When, Where string
	Other                  Object
}

// ParseMetadata reads the node.
func ParseMetadata(data []byte) (m Metadata, err error) {
	o, err := ParseObject(data)
	if err != nil {
		return m, err
	}
	return Metadata{o.Text("erc_who"), o.Text("erc_what"), o.Text("erc_when"), o.Text("erc_where"), o}, nil
}

// Encode returns the data of the node.
func (m *Metadata) Encode() []byte {
	o := m.Other.Clone()
	o.Set("erc_who", m.Who)
	o.Set("erc_what", m.What)
	o.Set("erc_when", m.When)
	o.Set("erc_where", m.Where)
	return o.Encode()
}

// Token is the data of the token of an access request. Its status is a number as those of HTTP: 201 queued, 200 ready,
// 202 not ready, 500 failed.
type Token struct {
	Status       int
	Token        string
	Bytes        int64
	DeliveryNode int64
	Message      string
	URL          string // "" if it is not known yet
	Anticipated  string // time from which it can be fetched; "" likewise
	Other        Object
}

// Keys of a token.
const (
	keyToken       = "token"
	keyBytes       = "cloud-content-byte"
	keyNode        = "delivery-node"
	keyURL         = "url"
	keyAnticipated = "anticipated-availability-time"
)

// ParseToken reads the node. Numbers may be texts.
func ParseToken(data []byte) (t Token, err error) {
	o, err := ParseObject(data)
	if err != nil {
		return t, err
	}
	status, _ := o.Int(keyStatus)
	size, _ := o.Int(keyBytes)
	node, _ := o.Int(keyNode)
	return Token{int(status), o.Text(keyToken), size, node, o.Text(keyMessage), o.Text(keyURL),
		o.Text(keyAnticipated), o}, nil
}

// Encode returns the data of the node.
func (t *Token) Encode() []byte {
	o := t.Other.Clone()
	o.Set(keyStatus, t.Status)
	o.Set(keyToken, t.Token)
	o.Set(keyBytes, t.Bytes)
	o.Set(keyNode, t.DeliveryNode)
	o.Set(keyMessage, t.Message)
	if t.URL != "" {
		o.Set(keyURL, t.URL)
	}
	if t.Anticipated != "" {
		o.Set(keyAnticipated, t.Anticipated)
	}
	return o.Encode()
}
